import type { RunInput } from '@bureau/framework'
import { type Call, type EncodeEvent, encodeBatches, streamResponse } from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
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
  { request }: Pick<Call, 'request'>,
  reply: FastifyReply,
  { name, agency, context }: ServedAgency,
  { input, contentType, encode }: StreamedRun,
): Promise<unknown> {
  const userId = await runUser(context.signIns, agency, request)
  if (isClientLost(reply)) return abandon(reply)
  const started = { agency, agencyName: name, input: asUser(input, userId), userId }
  const run = await context.runs.follow(request, started)
  if (isClientLost(reply)) return abandon(reply, () => run.control.cancel('immediate'))
  return streamResponse(reply, {
    contentType,
    chunks: encodeBatches(run.events, encode),
    keepalive: true,
    // Clients cancel and hang up in one go, and the hang-up may arrive first.
    onClientLost: () => context.runs.abandon(run),
  })
}
