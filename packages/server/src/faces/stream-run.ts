import type { RunInput } from '@bureau/framework'
import {
  type Call,
  type EncodeEvent,
  encodeBatches,
  type LiveRun,
  type StartRun,
  streamResponse,
} from '@bureau/runtime'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { abandon, isClientLost } from '../http/client-lost.ts'
import { asUser, runUser } from '../oauth/run-user.ts'
import type { ServedAgency } from './face.ts'

type StreamedRun = {
  readonly input: RunInput
  readonly contentType: string
  readonly encode: EncodeEvent
}

/** Starts a run for this request and streams it in the format of a face. The run ends when its client leaves. */
export async function streamRun(
  call: Pick<Call, 'request'>,
  reply: FastifyReply,
  served: ServedAgency,
  { input, contentType, encode }: StreamedRun,
): Promise<unknown> {
  const { runs } = served.context
  const run = await beginRun(call, reply, served, { input, begin: (request, asked) => runs.follow(request, asked) })
  if (!run) return
  return streamResponse(reply, {
    contentType,
    chunks: encodeBatches(run.events, encode),
    keepalive: true,
    // Clients cancel and hang up in one go, and the hang-up may arrive first.
    onClientLost: () => runs.abandon(run),
  })
}

type Beginning<Run> = {
  readonly input: RunInput
  readonly begin: (request: FastifyRequest, asked: Omit<StartRun, 'log' | 'environment'>) => Promise<Run>
}

/** Starts a run for this request; undefined when its client has left, and then nobody knows the run, which is stopped. */
export async function beginRun<Run extends LiveRun>(
  { request }: Pick<Call, 'request'>,
  reply: FastifyReply,
  { name, agency, context }: ServedAgency,
  { input, begin }: Beginning<Run>,
): Promise<Run | undefined> {
  const userId = await runUser(context.signIns, agency, request)
  const asked = { agency, agencyName: name, input: asUser(request, input, userId), userId }
  const run = isClientLost(reply) ? undefined : await begin(request, asked)
  if (!isClientLost(reply)) return run
  abandon(reply, () => run?.control.cancel('immediate'))
  return undefined
}
