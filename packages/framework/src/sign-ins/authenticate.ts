import { ProtectedConnection } from '../mcp/protected-connection.ts'
import type { ProtectedServer } from '../agency/protected-servers.ts'
import { activateConnection, type Caller, connectionFor, type Reach, reachOf, reportFailure } from './reach.ts'
import { type Authorize, SignInFailed } from '../mcp/sign-in.ts'
import type { SignInAttempt } from '../mcp/sign-in-attempt.ts'

/**
 * Lets an agent use a protected server for the rest of the run, once its user has signed in.
 *
 * @throws SignInFailed, or the reason of the run's signal.
 */
export async function authenticate(caller: Caller, entry: ProtectedServer): Promise<void> {
  const reach = reachOf(caller, entry)
  if (!reach) throw new SignInFailed('nobody_to_ask')
  try {
    if (reach.isHosted) await activateHosted(caller, reach)
    else await activate(caller, reach)
  } catch (error) {
    caller.run.control.signal.throwIfAborted()
    throw reportFailure(error, caller, reach)
  }
}

/** A server that we connect to: its tools join the agent's. */
async function activate(caller: Caller, reach: Reach): Promise<void> {
  const connection = connectionFor(caller, reach)
  await letIn(connection, caller, reach)
  await activateConnection(caller, connection)
}

/** A server that the model's provider connects to: all it needs is the token, which we try out. */
async function activateHosted(caller: Caller, reach: Reach): Promise<void> {
  const connection = new ProtectedConnection(reach.attempts)
  const { session } = connection
  try {
    await letIn(connection, caller, reach)
    if ((await session.token()) === undefined) {
      // A server that lists its tools to everybody: ask for a token all the same.
      await session.renew({}, undefined)
      const unasked = session.takeAttempt()
      if (unasked) await signIn(unasked, caller, reach)
    }
    if ((await session.token()) === undefined) throw new SignInFailed('no_token')
  } finally {
    await connection.close().catch(() => {})
  }
  caller.run.toolServers.activate(caller.agent.name, reach.server.name, { hosted: session })
}

/** The server lets the user in: at once, or after a sign-in. */
async function letIn(connection: ProtectedConnection, caller: Caller, reach: Reach): Promise<void> {
  const attempt = await connection.check()
  if (!attempt) return
  await signIn(attempt, caller, reach)
  if (await connection.check()) throw new SignInFailed('not_accepted')
}

/** Asks the user, and a second time where the provider refuses the registered client the scopes that it asks for. */
async function signIn(attempt: SignInAttempt, caller: Caller, reach: Reach): Promise<void> {
  try {
    await askUser(attempt, caller, reach)
  } catch (error) {
    const isForScopes = error instanceof SignInFailed && error.providerWord === 'invalid_scope'
    const other = isForScopes ? await attempt.withNewClient() : undefined
    if (!other) throw error
    await askUser(other, caller, reach)
  }
}

async function askUser(attempt: SignInAttempt, { run }: Caller, { userId, attempts, access }: Reach): Promise<void> {
  if (run.toolServers.isUnattended) throw new SignInFailed('timeout')
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
    if (error instanceof SignInFailed && error.reason === 'timeout') {
      run.toolServers.isUnattended = true
      await attempt.abandon()
    }
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
