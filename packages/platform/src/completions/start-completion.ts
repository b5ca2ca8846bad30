import type { ErrorCode } from '@bureau/protocol'
import type { FastifyRequest } from 'fastify'
import { servedAgencies } from '../agencies.ts'
import { reachOf } from '../caller.ts'
import type { Platform } from '../context.ts'
import { callerOf } from '../http/callers.ts'
import { admitCompletion, checkCompletion } from '../runs/admit/admit-completion.ts'
import type { Admission } from '../runs/admit/admit-run.ts'
import { beginRun, findRunStream, type RunStream } from '../runs/follow-run.ts'
import type { ReadCompletion } from './read-completion.ts'

/** What a request to run something is refused with, in whatever protocol. */
export const ADMISSION_ERRORS = [
  'invalid_agent',
  'allowance_attribution_required',
  'integration_disabled',
  'member_not_found',
  'chat_not_found',
  'run_active',
  'run_waiting',
  'usage_request_id_reused',
  'consumer_allowance_exhausted',
  'consumer_inactive',
  'consumer_concurrency_exceeded',
] as const satisfies readonly ErrorCode[]

/**
 * Admits a completion as a run of this process, unless its client leaves: a run that nobody waits for any more need not begin.
 *
 * @throws ServiceError what `admitCompletion` throws
 */
export async function admitWhileOpen(
  platform: Platform,
  request: FastifyRequest,
  { completion, ...read }: ToAdmit,
): ReturnType<typeof admitCompletion> {
  const client = request.raw.socket
  const left = new AbortController()
  const leave = (): void => left.abort(new Error('the client has left'))
  if (client.destroyed) leave()
  client.once('close', leave)
  try {
    const options = { ...optionsOf(platform, read), signal: left.signal }
    return await admitCompletion(platform.store, callerOf(request, true), completion, options)
  } finally {
    client.off('close', leave)
  }
}

/**
 * Refuses what would not be admitted now, before anything is done for it.
 *
 * @param waitingRunId - A run that waits in the chat and would end for this one.
 * @throws ServiceError what `admitCompletion` throws
 */
export function requireAdmission(
  platform: Platform,
  request: FastifyRequest,
  { completion, ...read }: ToAdmit,
  waitingRunId: string | undefined,
): Promise<void> {
  const options = { ...optionsOf(platform, read), waitingRunId }
  return checkCompletion(platform.store, callerOf(request, true), completion, options)
}

type ToAdmit = Omit<ReadCompletion, 'inline'>

function optionsOf(platform: Platform, { missingSandboxFiles }: Pick<ReadCompletion, 'missingSandboxFiles'>) {
  return { bootId: platform.replica.bootId, agencies: servedAgencies(platform), missingSandboxFiles }
}

/** The stream of an admitted run, which begins now or was begun by an earlier request. @throws ServiceError what `findRunStream` throws */
export async function streamOf(platform: Platform, request: FastifyRequest, admission: Admission): Promise<RunStream> {
  const caller = callerOf(request, true)
  if (admission.outcome === 'admitted') return beginRun(platform, caller, admission, request.headers)
  return findRunStream(platform, { ...reachOf(caller), runId: admission.run.runId })
}
