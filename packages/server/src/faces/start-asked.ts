import type { RunInput } from '@bureau/framework'
import type { Call, LiveRun } from '@bureau/runtime'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Answers, KeptByClient } from '../approvals/approvals.ts'
import { asUser, runUser } from '../oauth/run-user.ts'
import type { StartAsked } from '../request-runs.ts'
import type { ServedAgency } from './face.ts'

/** What a request asks of an agency: to answer a message, to go on with a run that waits, or both. */
export type AskedRun = {
  readonly input: RunInput
  /** What was decided about calls that wait. */
  readonly answers: Answers
  /** What of a run this protocol's clients have in their histories. */
  readonly kept: KeptByClient
}

type Beginning<Run> = {
  readonly request: FastifyRequest
  readonly userId: string | null
  readonly begin: (start: StartAsked) => Promise<Run>
}

/** Starts a run for this request; undefined when its client has left, and then nobody knows the run, which is stopped. */
export async function beginRun<Run extends LiveRun>(
  { request }: Pick<Call, 'request'>,
  reply: FastifyReply,
  served: ServedAgency,
  { begin, ...asked }: AskedRun & Pick<Beginning<Run>, 'begin'>,
): Promise<Run | undefined> {
  const userId = await runUser(served, request)
  const run = reply.raw.destroyed ? undefined : await startAsked(served, asked, { request, userId, begin })
  if (!reply.raw.destroyed) return run
  run?.control.cancel('immediate')
  reply.hijack()
  return undefined
}

/**
 * Starts the run that a request asks for. Decisions are used up only by a run that was started.
 *
 * @throws ApprovalRefused a decision cannot be used; whatever `begin` throws.
 */
export async function startAsked<Run>(
  { name, agency, context: { approvals } }: ServedAgency,
  { input, answers, kept }: AskedRun,
  { request, userId, begin }: Beginning<Run>,
): Promise<Run> {
  const owner = { agency: name, userId }
  const hold = { agency, agencyName: name, userId, approvals: approvals.holdingOf(owner, kept) }
  const { history } = input
  const continued = answers.list.length > 0 && (await approvals.goOn(owner, { agency, answers, history }))
  if (!continued) return begin({ ...hold, input: asUser(request, input, userId) })
  const { resume, release } = continued
  try {
    return await begin({ ...hold, input: asUser(request, { ...input, history: continued.history }, userId), resume })
  } catch (error) {
    await release()
    throw error
  }
}
