import { ApiErrorResponse, GetCompletionV2Request, ServiceError } from '@bureau/protocol'
import { readResumePoint } from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
import { reachOf } from '../caller.ts'
import { getChat } from '../chats/manage-chats.ts'
import { asConsumer } from '../consumer-tokens/consumer-request.ts'
import { EXAMPLES } from '../docs/examples.ts'
import { eventsUrlOf } from '../http/addresses.ts'
import { type Call, rawRoute, type Route } from '../http/route.ts'
import { AfterAdmission } from '../http/admission-header.ts'
import type { Admission } from '../runs/admit/admit-run.ts'
import { rejectWaiting } from '../runs/approve/reject-waiting.ts'
import type { RunStream } from '../runs/follow-run.ts'
import { readCompletion } from './read-completion.ts'
import { ADMISSION_ERRORS, admitWhileOpen, requireAdmission, streamOf } from './start-completion.ts'
import { followed, sendEvents, sendText } from './stream-run.ts'

const MIB = 1_048_576

type CompletionCall = Call<unknown, GetCompletionV2Request>

export const completionRoutes: readonly Route[] = [
  rawRoute(
    {
      method: 'POST',
      url: '/get_completion_v2',
      id: 'getCompletionV2',
      consumer: 'chat',
      tag: 'Completions',
      summary: 'Start a streamed agent run',
      description:
        'Answers with server-sent events, or with plain text in Text Only Mode. ' +
        '`X-Agent-Run-Admitted: false` says that this attempt reserved no run. When the header is absent, look the ' +
        'request up with its usageRequestId before sending it again: an absent header does not prove rejection.',
      scope: 'runs',
      surface: 'completion',
      admits: true,
      maxBodyBytes: 32 * MIB,
      body: GetCompletionV2Request,
      codes: {
        'attachments/*': 'invalid_attachment',
        'sandboxFiles/*': 'invalid_sandbox_file',
        'attachmentUrlRefreshes/*': 'invalid_attachment_refresh',
      },
      success: {
        200: {
          contentType: 'text/event-stream',
          otherContentType: 'text/plain',
          description: 'Frames: meta, data, messages, end. In Text Only Mode text/plain.',
          headers: {
            'X-Agent-Run-Admitted': '`true`: a run is reserved.',
            'X-Agent-Run-Id': 'The run.',
            'X-Chat-Id': 'The chat, also when the request made it.',
            'X-Agent-Run-Replayed': '`true`: the run was begun by an earlier request with this `usageRequestId`.',
          },
          example: EXAMPLES.completionStream,
        },
      },
      errors: [
        'invalid_attachment',
        'attachment_too_large',
        'invalid_sandbox_file',
        'sandbox_file_not_found',
        'files_unavailable',
        'unknown_agency',
        'chat_alias_conflict',
        'invalid_attachment_refresh',
        'attachment_refresh_required',
        'attachment_refresh_ambiguous',
        'integration_forbidden',
        'integration_not_found',
        ...ADMISSION_ERRORS,
      ],
      errorBody: ApiErrorResponse,
      examples: { request: EXAMPLES.completionRequest },
      headers: { 'Last-Event-ID': 'For a repeated request: the number after which the stream goes on.' },
    },
    complete,
  ),
]

async function complete(call: CompletionCall, reply: FastifyReply): Promise<void> {
  const { platform, caller, request } = call
  const body = asConsumer(call.body, caller)
  const resumeFrom = readResumePoint({ header: request.headers['last-event-id'], query: undefined }) ?? 0
  await requireOwnChat(call)
  const { inline, ...completion } = await readCompletion(platform, caller, body)
  /** Whoever is refused fills no disk, and ends no run. */
  const admit = async (waitingRunId?: string): ReturnType<typeof admitWhileOpen> => {
    const { ownerId, keyId: decidedBy } = caller
    if (inline.length > 0 || waitingRunId) await requireAdmission(platform, request, completion, waitingRunId)
    for (const image of inline) await platform.blobs.put(ownerId, image)
    if (waitingRunId) await platform.store.db.run(rejectWaiting, { ownerId, runId: waitingRunId, decidedBy })
    return admitWhileOpen(platform, request, completion)
  }
  const admitInstead = (error: unknown): ReturnType<typeof admitWhileOpen> => {
    const waiting = body.rejectPending === true ? waitingRunOf(error) : undefined
    if (waiting === undefined) throw error
    return admit(waiting)
  }
  const admission = await admit()
    .catch(admitInstead)
    .catch((error: unknown) => {
      throw naming(call, error)
    })
  if (admission.outcome === 'unknown') throw new AfterAdmission('unknown')
  const { runId } = admission.run
  try {
    const stream = await streamOf(platform, request, admission)
    await answer(call, reply, { admission, stream, resumeFrom: stream.isNew ? 0 : resumeFrom })
  } catch (error) {
    throw new AfterAdmission({ runId }, { cause: error })
  }
}

/** The run that occupies the chat until a person has decided. */
function waitingRunOf(error: unknown): string | undefined {
  return error instanceof ServiceError && error.code === 'run_waiting' ? error.headers[ACTIVE_RUN] : undefined
}

/** Whoever is refused because of another run learns where that one can be followed, and how to be answered all the same. */
function naming({ platform, request }: CompletionCall, error: unknown): unknown {
  const active = error instanceof ServiceError ? error.headers[ACTIVE_RUN] : undefined
  if (!(error instanceof ServiceError) || active === undefined) return error
  const headers = { ...error.headers, 'X-Agent-Active-Run-Events': eventsUrlOf(platform, request, active) }
  const message =
    error.code === 'run_waiting' ? `${error.message} To cancel it and be answered, send rejectPending.` : error.message
  return new ServiceError(error.code, { message, headers, cause: error })
}

const ACTIVE_RUN = 'X-Agent-Active-Run-Id'

/** The page of a consumer goes on in the chats of its consumer only. @throws ServiceError `chat_not_found` */
async function requireOwnChat({ platform, caller, body: { chatId } }: CompletionCall): Promise<void> {
  if (caller.consumerId === undefined || chatId == null) return
  await platform.store.db.run(getChat, { ...reachOf(caller), chatId })
}

type Answer = { readonly admission: Admission; readonly stream: RunStream; readonly resumeFrom: number }

async function answer(call: CompletionCall, reply: FastifyReply, given: Answer): Promise<void> {
  const { platform, request } = call
  const { admission, stream, resumeFrom } = given
  const { run, outcome, aliasChatId, textOnly } = admission
  const replayed = outcome === 'replayed'
  reply.header('X-Agent-Run-Admitted', 'true').header('X-Agent-Run-Id', run.runId).header('X-Chat-Id', run.chatId)
  if (replayed) reply.header('X-Agent-Run-Replayed', 'true')
  addMessageLimit(reply, admission)
  if (textOnly) {
    if (!(await sendText(reply, followed(call, reply, stream), 0))) await reply.code(200).send('')
    return
  }
  await sendEvents(reply, followed(call, reply, stream), {
    ...run,
    aliasChatId,
    resumeFrom,
    eventsUrl: eventsUrlOf(platform, request, run.runId),
    resumed: replayed,
    replayed: !(await stream.hasAllAfter(resumeFrom)),
  })
}

/** A consumer's message limit beside the rate of the API key. */
function addMessageLimit(reply: FastifyReply, { messageLimit }: Admission): void {
  if (!messageLimit) return
  const { limit, remaining, resetAt } = messageLimit
  const seconds = resetAt === null ? '' : `;t=${Math.max(0, Math.ceil((Date.parse(resetAt) - Date.now()) / 1_000))}`
  reply.header('RateLimit-Policy', `${String(reply.getHeader('RateLimit-Policy'))}, "consumer-messages";q=${limit}`)
  reply.header('RateLimit', `${String(reply.getHeader('RateLimit'))}, "consumer-messages";r=${remaining}${seconds}`)
}
