import type { RunContext } from '#agents-core'
import { ConfigError } from '@bureau/protocol'
import type { Agent } from '../agent.ts'
import type { Run } from '../run.ts'
import type { AgencyContext } from '../run-scope.ts'
import { type OAuthAccess, storeOf } from './oauth-access.ts'
import { settingsOf } from './oauth-server.ts'
import { ProtectedConnection } from './protected-connection.ts'
import type { ConnectionKey } from './protected-connections.ts'
import type { ProtectedServer } from './protected-servers.ts'
import { serverTools } from './server-tools.ts'
import { type Authorize, SignInFailed } from './sign-in.ts'
import type { AttemptOptions, SignInAttempt } from './sign-in-attempt.ts'

/** An agent in a run, as the tool that it calls sees it. */
export type Caller = {
  readonly run: Run
  readonly agent: Agent
  readonly runContext: RunContext<AgencyContext>
}

/**
 * Lets an agent use a protected server for the rest of the run, once its user has signed in.
 *
 * @throws SignInFailed, or the reason of the run's signal.
 */
export async function authenticate(caller: Caller, entry: ProtectedServer): Promise<void> {
  const { run } = caller
  const access = run.environment.oauth
  const userId = run.input.userId
  if (!access || userId === undefined) throw new SignInFailed('nobody_to_ask')
  const { server } = entry
  const settings = settingsOf(server, access.read)
  const store = storeOf(server, settings, access, run.agency)
  const attempts: AttemptOptions = {
    settings,
    store,
    key: { userId, server: settings.storageName },
    fetch: access.fetch?.(settings) ?? fetch,
    now: run.environment.now,
  }
  const signIn = (attempt: SignInAttempt): Promise<void> => carryOut(attempt, { run, userId, attempts, access })
  try {
    if (entry.hostedTool) await activateHosted(caller, server.name, attempts, signIn)
    else await activate(caller, { userId, server, store }, attempts, signIn)
  } catch (error) {
    run.control.signal.throwIfAborted()
    const failure = error instanceof SignInFailed ? error : new SignInFailed('server_unavailable', { cause: error })
    access.onFailure(failure, { server: server.name, runId: run.runId })
    throw failure
  }
}

type SignIn = (attempt: SignInAttempt) => Promise<void>

/** A server that we connect to: its tools join the agent's. */
async function activate(caller: Caller, key: ConnectionKey, attempts: AttemptOptions, signIn: SignIn): Promise<void> {
  const { run, agent, runContext } = caller
  const connection = run.toolServers.lease(key, () => new ProtectedConnection(attempts))
  const attempt = await connection.check()
  if (attempt) {
    await signIn(attempt)
    if (await connection.check()) throw new SignInFailed('not_accepted')
  }
  const others = run.toolServers.connectionsOf(agent.name).filter((other) => other !== connection)
  try {
    await serverTools({ agent, runContext, servers: [...agent.mcpServers, ...others, connection] })
  } catch (cause) {
    if (cause instanceof ConfigError) throw new SignInFailed('tool_names_taken', { cause })
    throw cause
  }
  run.toolServers.activate(agent.name, connection.name, { connection })
}

/** A server that the model's provider connects to: all it needs is the token, which we try out. */
async function activateHosted(caller: Caller, name: string, attempts: AttemptOptions, signIn: SignIn): Promise<void> {
  const connection = new ProtectedConnection(attempts)
  const { session } = connection
  try {
    const attempt = await connection.check()
    if (attempt) {
      await signIn(attempt)
      if (await connection.check()) throw new SignInFailed('not_accepted')
    }
    if ((await session.token()) === undefined) {
      // A server that lists its tools to everybody: ask for a token all the same.
      await session.renew({}, undefined)
      const unasked = session.takeAttempt()
      if (unasked) await signIn(unasked)
    }
    if ((await session.token()) === undefined) throw new SignInFailed('no_token')
  } finally {
    await connection.close().catch(() => {})
  }
  caller.run.toolServers.activate(caller.agent.name, name, { hosted: session })
}

type SigningIn = {
  readonly run: Run
  readonly userId: string
  readonly attempts: AttemptOptions
  readonly access: OAuthAccess
}

async function carryOut(attempt: SignInAttempt, { run, userId, attempts, access }: SigningIn): Promise<void> {
  const { settings, store, key } = attempts
  const { redirectHandler, callbackHandler } = settings.options
  const authorize = redirectHandler && callbackHandler ? byHandlers(redirectHandler, callbackHandler) : access.authorize
  try {
    await authorize({
      state: attempt.stateText,
      authorizationUrl: attempt.authorizationUrl!,
      server: settings.name,
      userId,
      emit: (event) => run.emit(event),
      exchange: (callback) => store.exclusive(key, () => attempt.finish(callback)),
      signal: run.control.stopSignal,
    })
  } catch (error) {
    run.control.signal.throwIfAborted()
    if (run.control.stopSignal.aborted) throw new SignInFailed('cancelled', { cause: error })
    if (error instanceof SignInFailed && error.reason === 'timeout') await attempt.abandon()
    throw error
  }
}

/** The flow of a script: its own handlers instead of a server's callback route. */
function byHandlers(
  redirect: (url: URL) => void | Promise<void>,
  callback: (signal: AbortSignal) => Promise<URLSearchParams>,
): Authorize {
  return async ({ authorizationUrl, exchange, signal }) => {
    await redirect(authorizationUrl)
    const query = await callback(signal)
    const word = query.get('error')
    if (word !== null) throw new SignInFailed('denied', { providerWord: word })
    try {
      await exchange(query)
    } catch (cause) {
      throw cause instanceof SignInFailed ? cause : new SignInFailed('exchange_failed', { cause })
    }
  }
}
