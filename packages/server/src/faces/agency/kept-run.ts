import { hash } from 'node:crypto'
import {
  type RunEnded,
  type RunEventsQuery,
  type RunOfRequest,
  type RunOfRequestQuery,
  type RunRequest,
  ServiceError,
} from '@bureau/protocol'
import {
  type Answered,
  type Call,
  encodeBatches,
  hasEverything,
  type LoggedRun,
  ok,
  param,
  readResumePoint,
  type RequestRun,
  type RunLogReader,
  StreamBroken,
  streamResponse,
} from '@bureau/runtime'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { runUser } from '../../oauth/run-user.ts'
import type { ServedAgency } from '../face.ts'
import { type AskedRun, beginRun, startAsked } from '../start-asked.ts'
import { encodeKept, keptMeta } from './encode.ts'

export const EVENT_STREAM = 'text/event-stream; charset=utf-8'

type KeptRequest = AskedRun & { readonly body: RunRequest }

/**
 * Streams a run that goes on when its client leaves: the one that the request begins, or that it has begun before.
 *
 * @throws ServiceError `request_id_reused`, `request_ended`
 */
export async function streamKeptRun(
  call: Pick<Call, 'request'>,
  reply: FastifyReply,
  served: ServedAgency,
  { body, ...asked }: KeptRequest,
): Promise<void> {
  const { runs } = served.context
  if (body.request_id == null) {
    const run = await beginRun(call, reply, served, { ...asked, begin: (start) => runs.keep(call.request, start) })
    return run && streamLog(reply, run.log, { run_id: run.runId, resumed: false, resume_from: 0 })
  }
  const userId = await runUser(served, call.request)
  const { runId: run_id, log, resumed } = await keepRun(call.request, served, { ...asked, body, userId })
  await streamLog(reply, log, { run_id, resumed, resume_from: 0 })
}

/**
 * The run of a request, which goes on when its client leaves: begun now, or by the same request before.
 *
 * @throws ServiceError `request_id_reused`, `request_ended`
 */
export async function keepRun(
  request: FastifyRequest,
  served: ServedAgency,
  { body, userId, ...asked }: KeptRequest & { readonly userId: string | null },
): Promise<RequestRun> {
  const { runs, host } = served.context
  const begin = (id?: { readonly runId: string }): Promise<LoggedRun> =>
    startAsked(served, asked, { request, userId, begin: (start) => runs.keep(request, { ...start, ...id }) })
  const { request_id: requestId } = body
  if (requestId == null) return { ...(await begin()), resumed: false }
  const named = { agency: served.name, userId, requestId, asked: digestOf(body) }
  return host.keepOnce(named, (runId) => begin({ runId }))
}

/** A history that the client has carried on meanwhile makes no other request. */
function digestOf({ chat_history: _history, request_id: _id, ...asked }: RunRequest): string {
  return hash('sha256', JSON.stringify(asked), 'base64url')
}

/**
 * Waits for the end of a kept run.
 *
 * @throws ServiceError `stream_unavailable`
 */
export async function endOf({ log }: RequestRun): Promise<RunEnded> {
  try {
    // `run.ended` is the last event but one.
    for await (const { events } of log.read(Math.max(0, log.head - 2), new AbortController().signal)) {
      const end = events.find((event) => event.type === 'run.ended')
      if (end) return end
    }
  } catch (cause) {
    if (!(cause instanceof StreamBroken)) throw cause
  }
  throw new ServiceError('stream_unavailable')
}

/**
 * Says which run answers a request.
 *
 * @throws ServiceError `run_not_found`, `stream_unavailable`
 */
export async function findRunOfRequest(
  { request, query }: Call<unknown, z.output<typeof RunOfRequestQuery>>,
  served: ServedAgency,
): Promise<Answered<200, z.output<typeof RunOfRequest>>> {
  const { request_id } = query
  const userId = await runUser(served, request)
  const run_id = await served.context.host.findRequest({ agency: served.name, userId, requestId: request_id })
  if (run_id === undefined) throw new ServiceError('run_not_found')
  return ok({ run_id, request_id })
}

/**
 * Streams such a run behind the last event that its reader has seen; 204 when there is nothing more.
 *
 * @throws ServiceError `invalid_last_event_id`, `run_not_found`, `stream_unavailable`
 */
export async function followKeptRun(
  call: Call<unknown, z.output<typeof RunEventsQuery>>,
  reply: FastifyReply,
  served: ServedAgency,
): Promise<unknown> {
  const { request, query } = call
  const header = request.headers['last-event-id']
  const resume_from = readResumePoint({ header, query: query.starting_after }) ?? 0
  const userId = await runUser(served, request)
  const run_id = param(call, 'run_id')
  const log = await served.context.kept.find({ runId: run_id, agency: served.name, userId })
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
