import { setTimeout as sleep } from 'node:timers/promises'
import { ProtectedConnection } from '../mcp/protected-connection.ts'
import type { ProtectedServer } from '../agency/protected-servers.ts'
import { activateConnection, type Caller, connectionFor, type Reach, reachOf, reportFailure } from './reach.ts'

/** Longest time that a server may take before the run goes on without it, in milliseconds. */
const RESUME_TIMEOUT_MS = 5_000

/**
 * Lets an agent use the protected servers that its user has signed in to before, once for each agent of a run. Nobody is asked,
 * and nothing is contacted for users without tokens: what needs the user, or does not answer, waits until the model calls
 * `authenticate_mcp_server`.
 */
export async function resumeSignIns(caller: Caller): Promise<void> {
  const { run, agent } = caller
  if (agent.protectedServers.size === 0) return
  await run.toolServers.once(agent.name, async () => {
    const entries = [...agent.protectedServers.values()]
    const ready = await Promise.all(entries.map((entry) => makeReady(caller, entry)))
    // One after the other, because the names of their tools are compared, and in an order that is always the same.
    for (const activate of ready) await activate?.()
  })
}

/** What activates the server for the agent. Undefined: it must wait. */
async function makeReady(caller: Caller, entry: ProtectedServer): Promise<(() => Promise<void>) | undefined> {
  const reach = reachOf(caller, entry)
  if (!reach || !(await hasTokens(reach))) return undefined
  const { attempts, isHosted, server } = reach
  const connection = isHosted ? new ProtectedConnection(attempts) : connectionFor(caller, reach)
  const { session } = connection
  const report = (error: unknown): void => void reportFailure(error, caller, reach)
  try {
    await inTime(connection.resume())
    if (!isHosted) return () => activateConnection(caller, connection).catch(report)
    return async () => caller.run.toolServers.activate(caller.agent.name, server.name, { hosted: session })
  } catch (error) {
    if (!session.needsUser) report(error)
    return undefined
  } finally {
    if (isHosted) await connection.close().catch(() => {})
  }
}

async function hasTokens({ attempts: { store, key } }: Reach): Promise<boolean> {
  const stored = await store.load(key).catch(() => undefined)
  return stored?.tokens !== undefined
}

/** @throws Error it takes too long. What was begun goes on, and may be of use to a later run. */
async function inTime(work: Promise<void>): Promise<void> {
  const done = new AbortController()
  const late = sleep(RESUME_TIMEOUT_MS, undefined, { ref: false, signal: done.signal }).then(() => {
    throw new Error(`no answer within ${RESUME_TIMEOUT_MS} ms`)
  })
  try {
    await Promise.race([work, late])
  } finally {
    done.abort()
  }
}
