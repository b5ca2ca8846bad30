import type { CallerOptions, RunInput } from '@bureau/framework'
import { type Call, type Route, routesOf } from '@bureau/runtime'
import { ServiceError } from '@bureau/protocol'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import type { FaceHost, FaceRun } from '../face-host.ts'
import { beginRun } from '../begin.ts'
import { afterBegin, API_ROW, ApiError, ApiErrorBody, failedRun, refusedStream, REMEDIES } from '../openai/api-error.ts'
import { callerOptionsOf } from '../openai/caller-functions.ts'
import { readConversation } from '../openai/conversation.ts'
import { sendEvents, waitForEnd } from '../follow.ts'
import { requireJson } from '../json-rpc/rpc-errors.ts'
import { incompleteReason, isWithUser } from '../openai/model-event.ts'
import { selectAgent, type Target } from '../openai/select-agent.ts'
import { completionId, completionOf, isAnswered } from './completion.ts'
import { chatEncoder } from './encode.ts'
import { ChatRequest, readChatRequest } from './read-request.ts'
import { isSideRequest, type SideRequests } from './side-request.ts'
import { readMessages } from './wire-items.ts'

export type ChatOptions = { readonly sideRequests: SideRequests }

const Completion = z
  .looseObject({ id: z.string(), object: z.literal('chat.completion'), choices: z.array(z.looseObject({})) })
  .meta({ id: 'ChatCompletion' })

/** `POST /openai/v1/chat/completions`: an agency as a model of OpenAI's older API. */
export function chatFace(host: FaceHost, options: ChatOptions): readonly Route<object>[] {
  const { rawRoute } = routesOf<object>()
  return [
    rawRoute(
      {
        method: 'POST',
        url: '/openai/v1/chat/completions',
        id: 'openai_chat_completions',
        ...API_ROW,
        summary: 'Chat Completions',
        description: 'A run of an agency, for clients of OpenAI’s Chat Completions API; with `stream` as chunks.',
        ownBody: ChatRequest,
        success: {
          200: {
            contentType: 'application/json',
            otherContentType: 'text/event-stream',
            json: Completion,
            description: 'The answer.',
          },
        },
        errors: ['overloaded', 'oauth_needs_streaming'],
        otherResponses: { '4XX': { description: 'The request cannot be used.', body: ApiErrorBody } },
      },
      (call, reply) => complete(call, reply, { host, options }),
    ),
  ]
}

type Served = { readonly host: FaceHost; readonly options: ChatOptions }

async function complete({ request }: Call, reply: FastifyReply, { host, options }: Served): Promise<unknown> {
  requireJson(request)
  const body = readChatRequest(request.body)
  const target = await selectAgent(host, request, body.model ?? null)
  const input = runInput(body, target, options.sideRequests)
  if (!body.stream && target.served.signsIn) throw new ServiceError('oauth_needs_streaming')
  const run = await beginRun({ host, remedies: REMEDIES }, request, {
    served: target.served,
    input,
    kept: false,
    ...(body.user && { onBehalfOf: body.user }),
  })
  return afterBegin({ request, run }, () => answer(reply, run, { body, input, target }))
}

type Answering = { readonly body: ChatRequest; readonly input: RunInput; readonly target: Target }

async function answer(reply: FastifyReply, run: FaceRun, { body, input, target }: Answering): Promise<unknown> {
  const { agent, model } = target
  if (body.stream) {
    const functions = new Set(input.callerOptions?.functions?.map(({ name }) => name))
    const includeUsage = body.stream_options?.include_usage ?? false
    const { runId, approvalsUrl } = run
    return sendEvents(reply, run, {
      encode: chatEncoder({ runId, approvalsUrl, model, includeUsage, agent, functions }),
      refused: refusedStream,
    })
  }
  let incomplete: string | undefined
  const ended = await waitForEnd(reply, run, (event) => {
    if (event.type !== 'model.event' || !isWithUser(event.source)) return ''
    if (event.kind === 'response.created') incomplete = undefined
    if (event.kind === 'response.incomplete') incomplete = incompleteReason(event)
    return ''
  })
  if (!ended) return undefined
  if (!isAnswered(ended)) throw failedRun(ended.error)
  const created = Math.floor(Date.now() / 1_000)
  return completionOf({ id: completionId(run.runId), created, model }, ended, {
    incomplete,
    approvalsUrl: run.approvalsUrl,
  })
}

/** @throws ApiError 400 */
function runInput(body: ChatRequest, target: Target, sideRequests: SideRequests): RunInput {
  const isSide = sideRequests !== 'agency' && isSideRequest(body)
  if (isSide && sideRequests === 'refuse') {
    const message = 'This server answers its users only, not requests of chat pages for titles, tags and the like.'
    throw new ApiError(message, { status: 400, code: 'side_request_refused' })
  }
  const { instructions, history, message } = readConversation(readMessages(body.messages), 'messages')
  const added = instructions.join('\n\n')
  return {
    message,
    history,
    agent: target.agent,
    ...(added !== '' && { additionalInstructions: added }),
    ...(body.user_context && { userContext: body.user_context }),
    callerOptions: { ...callerOptions(body, target), ...(isSide && { modelOnly: true }) },
  }
}

function callerOptions(body: ChatRequest, target: Target): CallerOptions {
  const maxTokens = body.max_completion_tokens ?? body.max_tokens
  const maxOutputTokens = maxTokens == null ? null : Math.max(maxTokens, MIN_OUTPUT_TOKENS)
  return callerOptionsOf(
    { ...body, maxOutputTokens, format: body.response_format, formatParam: 'response_format' },
    target,
  )
}

/** The Responses API, which agents speak with their models, takes no less. */
const MIN_OUTPUT_TOKENS = 16
