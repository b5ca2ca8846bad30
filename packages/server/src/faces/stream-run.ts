import { type Call, type EncodeEvent, encodeBatches, type LiveRun, streamResponse } from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
import { isClientLost } from '../http/client-lost.ts'
import { runUser } from '../oauth/run-user.ts'
import type { ServedAgency } from './face.ts'
import { type AskedRun, type Beginning, startAsked } from './start-asked.ts'

type StreamedRun = AskedRun & {
  readonly contentType: string
  readonly encode: EncodeEvent
}

/** Starts a run for this request and streams it in the format of a face. The run ends when its client leaves. */
export async function streamRun(
  call: Pick<Call, 'request'>,
  reply: FastifyReply,
  served: ServedAgency,
  { contentType, encode, ...asked }: StreamedRun,
): Promise<unknown> {
  const { runs, registry } = served.context
  const run = await beginRun(call, reply, served, { ...asked, begin: (start) => runs.follow(call.request, start) })
  if (!run) return
  return streamResponse(reply, {
    contentType,
    chunks: encodeBatches(run.events, encode),
    keepalive: true,
    // Clients cancel and hang up in one go, and the hang-up may arrive first.
    onClientLost: () => registry.abandon(run),
  })
}

/** Starts a run for this request; undefined when its client has left, and then nobody knows the run, which is stopped. */
export async function beginRun<Run extends LiveRun>(
  { request }: Pick<Call, 'request'>,
  reply: FastifyReply,
  served: ServedAgency,
  { begin, ...asked }: AskedRun & Pick<Beginning<Run>, 'begin'>,
): Promise<Run | undefined> {
  const userId = await runUser(served, request)
  const run = isClientLost(reply) ? undefined : await startAsked(served, asked, { request, userId, begin })
  if (!isClientLost(reply)) return run
  run?.control.cancel('immediate')
  reply.hijack()
  return undefined
}
