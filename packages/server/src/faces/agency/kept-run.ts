import { type RunEventsQuery, ServiceError } from '@bureau/protocol'
import {
  type Call,
  encodeBatches,
  hasEverything,
  param,
  readResumePoint,
  type RunLogReader,
  StreamBroken,
  streamResponse,
} from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
import type { z } from 'zod'
import { runUser } from '../../oauth/run-user.ts'
import type { ServedAgency } from '../face.ts'
import type { AskedRun } from '../start-asked.ts'
import { beginRun } from '../stream-run.ts'
import { encodeKept, keptMeta } from './encode.ts'

export const EVENT_STREAM = 'text/event-stream; charset=utf-8'

/** Starts a run that goes on when its client leaves, and streams it. */
export async function streamKeptRun(
  call: Pick<Call, 'request'>,
  reply: FastifyReply,
  served: ServedAgency,
  asked: AskedRun,
): Promise<void> {
  const { runs } = served.context
  const run = await beginRun(call, reply, served, { ...asked, begin: (request, start) => runs.keep(request, start) })
  if (run) await streamLog(reply, run.log, { run_id: run.runId, resumed: false, resume_from: 0 })
}

/**
 * Streams such a run behind the last event that its reader has seen; 204 when there is nothing more.
 *
 * @throws ServiceError `invalid_last_event_id`, `run_not_found`, `stream_unavailable`
 */
export async function followKeptRun(
  call: Call<unknown, z.output<typeof RunEventsQuery>>,
  reply: FastifyReply,
  { name, agency, context }: ServedAgency,
): Promise<unknown> {
  const { request, query } = call
  const header = request.headers['last-event-id']
  const resume_from = readResumePoint({ header, query: query.starting_after }) ?? 0
  const userId = await runUser(context.signIns, agency, request)
  const run_id = param(call, 'run_id')
  const log = await context.runs.find({ runId: run_id, agency: name, userId })
  if (!log) throw new ServiceError('run_not_found')
  if (hasEverything(log, resume_from)) return reply.code(204).send()
  return streamLog(reply, log, { run_id, resumed: true, resume_from })
}

/** A reader who leaves, or whose stream breaks off, may come again: nothing else happens. */
async function streamLog(reply: FastifyReply, log: RunLogReader, meta: Parameters<typeof keptMeta>[0]): Promise<void> {
  const left = new AbortController()
  const batches = log.read(meta.resume_from, left.signal)
  try {
    await streamResponse(reply, {
      contentType: EVENT_STREAM,
      chunks: encodeBatches(batches, encodeKept, keptMeta(meta)),
      keepalive: true,
      onClientLost: () => left.abort(),
    })
  } catch (error) {
    if (!(error instanceof StreamBroken) && !left.signal.aborted) throw error
  }
}
