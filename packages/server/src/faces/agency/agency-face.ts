import {
  type FileUrlsError,
  CancelRequestBody,
  type CancelResponse,
  type RunEnded,
  type RunRequest,
  type RunResponse,
  ServiceError,
} from '@bureau/protocol'
import { type Call, encodeBatches, ok, onClientLost, streamResponse } from '@bureau/runtime'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isFileUrlsFailure } from '../../agencies/attachment-failure.ts'
import { checkClientConfig } from '../../agencies/check-client-config.ts'
import { InvalidBody, parseBody } from '../../http/invalid-body.ts'
import { jsonRoute, rawRoute } from '../../http/route.ts'
import { runUser } from '../../oauth/run-user.ts'
import type { Face, ServedAgency } from '../face.ts'
import { type AskedRun, beginRun, startAsked } from '../start-asked.ts'
import { agencySpecs } from './agency-specs.ts'
import { agencyEncoder, errorOf } from './encode.ts'
import { endOf, EVENT_STREAM, findRunOfRequest, followKeptRun, keepRun, streamKeptRun } from './kept-run.ts'
import { answersOf, readRunRequest, toRunInput } from './read-request.ts'

const CANCEL_TIMEOUT_MS = 60_000

/**
 * `get_response`, `get_response_stream` and `cancel_response_stream`, as clients of the Python system know them, and `events`
 * of runs that go on when their clients leave.
 */
export const agencyFace: Face = (served) => {
  const specs = agencySpecs(served)
  return [
    rawRoute(specs.getResponse, ({ request }, reply) => getResponse(served, request, reply)),
    rawRoute(specs.getResponseStream, async (call, reply) => {
      const body = readRunRequest(served.agency, call.request.body)
      const asked = readAsked(served, call.request, body)
      if (goesOn(served, body)) return streamKeptRun(call, reply, served, { ...asked, body })
      return streamRun(call, reply, served, asked)
    }),
    jsonRoute(specs.cancelResponseStream, async ({ request }) => {
      const body = parseBody(CancelRequestBody, request.body)
      return ok(await cancelRun(served, { ...body, userId: await runUser(served, request) }))
    }),
    ...(served.context.keepsRuns
      ? [
          rawRoute(specs.events, (call, reply) => followKeptRun(call, reply, served)),
          jsonRoute(specs.runOfRequest, (call) => findRunOfRequest(call, served)),
        ]
      : []),
  ]
}

/** Streams a run that ends when its client leaves. */
async function streamRun(call: Call, reply: FastifyReply, served: ServedAgency, asked: AskedRun): Promise<unknown> {
  const { runs, registry } = served.context
  const run = await beginRun(call, reply, served, { ...asked, begin: (start) => runs.follow(call.request, start) })
  if (!run) return
  return streamResponse(reply, {
    contentType: EVENT_STREAM,
    chunks: encodeBatches(run.events, agencyEncoder()),
    keepalive: true,
    // Clients cancel and hang up in one go, and the hang-up may arrive first.
    onClientLost: () => registry.abandon(run),
  })
}

/**
 * Whether a run outlives its client.
 *
 * @throws InvalidBody the server keeps no runs, or nobody could come back to a run that has a `request_id`.
 */
function goesOn({ context }: ServedAgency, { on_disconnect, request_id }: RunRequest): boolean {
  if (on_disconnect === 'continue' && context.keepsRuns) return true
  if (on_disconnect === 'continue') {
    const msg = "this server keeps no runs (its resumeMs is 0): leave it out, or send 'cancel'"
    throw new InvalidBody([{ type: 'value_error', loc: ['body', 'on_disconnect'], msg, input: on_disconnect }])
  }
  if (request_id == null) return false
  const msg = "needs on_disconnect: 'continue', because other runs end with their client"
  throw new InvalidBody([{ type: 'value_error', loc: ['body', 'request_id'], msg, input: request_id }])
}

async function getResponse(served: ServedAgency, request: FastifyRequest, reply: FastifyReply): Promise<object> {
  const body = readRunRequest(served.agency, request.body)
  const asked = readAsked(served, request, body)
  const keeps = goesOn(served, body)
  const userId = await runUser(served, request)
  if (served.signsIn) throw new ServiceError('oauth_needs_streaming')
  if (keeps) return answer(await endOf(await keepRun(request, served, { ...asked, body, userId })))
  const { runs } = served.context
  const run = await startAsked(served, asked, { request, userId, begin: (start) => runs.start(request, start) })
  onClientLost(reply, () => run.control.cancel('immediate'))
  return answer(await run.ended)
}

/** @throws InvalidBody */
function readAsked(served: ServedAgency, request: FastifyRequest, body: RunRequest): AskedRun {
  checkClientConfig(body, served.context)
  return { input: toRunInput(served, request, body), answers: answersOf(body), kept: 'everything' }
}

/** @throws ServiceError `run_failed` with the run's own sentence and code, `run_cancelled` */
function answer(ended: RunEnded): RunResponse | FileUrlsError {
  const { status, approvals, error } = ended
  if (error && isFileUrlsFailure(error)) return errorOf(error)
  if (error) throw new ServiceError('run_failed', { message: error.message, body: { code: error.code } })
  if (status === 'cancelled') throw new ServiceError('run_cancelled')
  return {
    response: ended.output,
    new_messages: [...ended.new_messages],
    ...(ended.usage && { usage: ended.usage }),
    ...(ended.file_ids_map && { file_ids_map: ended.file_ids_map }),
    ...(ended.chat_name !== undefined && { chat_name: ended.chat_name }),
    ...(status === 'waiting' && { status, approvals: [...(approvals ?? [])] }),
  }
}

type Cancel = CancelRequestBody & { readonly userId: string | null }

async function cancelRun({ name: agency, context }: ServedAgency, cancel: Cancel): Promise<CancelResponse> {
  const { run_id: runId, userId } = cancel
  const mode = cancel.cancel_mode ?? 'immediate'
  const outcome = await context.registry.cancel({ runId, agency, userId, mode, timeoutMs: CANCEL_TIMEOUT_MS })
  if (!outcome) {
    throw new ServiceError('run_not_found', { message: `Run '${runId}' not found or already completed` })
  }
  const { ended, soFar = [] } = outcome
  return {
    ok: ended !== null,
    run_id: runId,
    cancelled: ended?.status === 'cancelled',
    cancel_mode: mode,
    new_messages: [...(ended?.new_messages ?? soFar)],
    ...(ended?.usage && { usage: ended.usage }),
    timed_out: ended === null,
  }
}
