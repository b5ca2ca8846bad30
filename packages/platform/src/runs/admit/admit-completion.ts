import { ServiceError } from '@bureau/protocol'
import type { Caller } from '../../caller.ts'
import { CommitUnknownError } from '../../db/database.ts'
import type { PlatformStore } from '../../platform-store.ts'
import { getRun } from '../../run-records/read-runs.ts'
import { type Admission, admitRun, checkAdmission } from './admit-run.ts'
import { completionFingerprint, type CompletionRequest } from './completion-request.ts'
import type { AdmitRun } from './require-admissible.ts'

type CheckOptions = Pick<AdmitRun, 'bootId' | 'agencies' | 'missingSandboxFiles' | 'waitingRunId'>

type AdmitOptions = Omit<CheckOptions, 'waitingRunId'> & {
  /** Aborts when the client has left: then no run is reserved. */
  readonly signal: AbortSignal
}

/** After this long nobody waits for an answer any more. */
const DEADLINE_MS = 8_000

/**
 * Admits a completion.
 *
 * `unknown`: a run may or may not have been reserved; the caller has to look at the chat status. Everything thrown
 * means that this attempt reserved nothing.
 *
 * @throws ServiceError what `admitRun` throws, `overloaded`, `database_unavailable`
 * @throws The reason of `signal`, when it aborted before the reservation.
 */
export async function admitCompletion(
  store: PlatformStore,
  caller: Caller,
  request: CompletionRequest,
  { signal, ...options }: AdmitOptions,
): Promise<Admission | { readonly outcome: 'unknown' }> {
  const args = await argsOf(store, caller, request, options)
  signal.throwIfAborted()
  const wanted = new AbortController() // AbortSignal.any and .timeout cost more than everything else here
  const leave = (): void => wanted.abort(signal.reason)
  const late = setTimeout(() => wanted.abort(new ServiceError('database_unavailable')), DEADLINE_MS)
  signal.addEventListener('abort', leave, { once: true })
  try {
    return await store.db.run(admitRun, args, { signal: wanted.signal })
  } catch (error) {
    if (!(error instanceof CommitUnknownError)) throw error
    return findAdmitted(store, caller, error.result as Admission | undefined)
  } finally {
    clearTimeout(late)
    signal.removeEventListener('abort', leave)
  }
}

/** Refuses what `admitCompletion` would refuse now, and reserves nothing. @throws ServiceError what that throws */
export async function checkCompletion(
  store: PlatformStore,
  caller: Caller,
  request: CompletionRequest,
  options: CheckOptions,
): Promise<void> {
  await store.db.run(checkAdmission, await argsOf(store, caller, request, options))
}

async function argsOf(
  store: PlatformStore,
  { ownerId, integrationIds }: Caller,
  request: CompletionRequest,
  options: CheckOptions,
): Promise<AdmitRun> {
  const fingerprint = completionFingerprint(store.serverKey, request)
  return { ownerId, integrationIds, request, ...options, fingerprint, dataKey: await store.dataKeys.of(ownerId) }
}

/** Looks for the run of an admission whose COMMIT met a crash of the database. */
async function findAdmitted(
  { db }: PlatformStore,
  { ownerId, integrationIds }: Caller,
  admission: Admission | undefined,
): Promise<Admission | { readonly outcome: 'unknown' }> {
  if (!admission) return { outcome: 'unknown' }
  try {
    await db.run(getRun, { ownerId, integrationIds, runId: admission.run.runId, output: false })
    return admission
  } catch (error) {
    const isGone = error instanceof ServiceError && error.code === 'run_not_found'
    if (!isGone) return { outcome: 'unknown' }
    throw new ServiceError('database_unavailable', { cause: error, headers: { 'Retry-After': '2' } })
  }
}
