import { randomUUID } from 'node:crypto'
import type { CallerOptions, RunInput } from '@bureau/framework'
import { type Message, ServiceError, type WireItem } from '@bureau/protocol'
import { type Call, type EncodeEvent, type Route, routesOf } from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
import { type AskedRun, endOf, type FaceAgency, type FaceHost, type FaceRun } from '../face-host.ts'
import { ApiError, ApiErrorBody, answerError, failedRun, unsupportedParam } from '../openai/api-error.ts'
import { type GivenChoice, offeredFunctions, requireNoOwnFormat } from '../openai/caller-functions.ts'
import { sendEvents, waitForEnd } from '../openai/follow.ts'
import { selectAgent, type Target } from '../openai/select-agent.ts'
import { readResponsesRequest, ResponsesRequest } from './read-request.ts'
import { responseDescriber, ResponseResource } from './resource.ts'
import { ResponseEvents, type ResponseStream } from './response-events.ts'
import type { ResponseStore } from './response-store.ts'
import type { KindOfCall } from './steps.ts'
import { storedRoutes } from './stored-responses.routes.ts'
import { storedResponse } from './keep-response.ts'
import { readInput } from './wire-items.ts'

export type ResponsesOptions = {
  /** Absent: nothing is kept, and what needs it is refused. */
  readonly store?: ResponseStore | undefined
  /** True: the server keeps conversations, and goes on with the one of the run that `previous_response_id` names. */
  readonly serverKeeps?: boolean
  /** True: streams hold nothing but what the specification knows, by its names. */
  readonly isStrict: boolean
}

type Served = { readonly host: FaceHost; readonly options: ResponsesOptions }

/** `POST /openai/v1/responses` and the routes of stored responses: an agency as a model of Open Responses. */
export function responsesFace(host: FaceHost, options: ResponsesOptions): readonly Route<object>[] {
  const { rawRoute } = routesOf<object>()
  const { store } = options
  return [
    rawRoute(
      {
        method: 'POST',
        url: '/openai/v1/responses',
        id: 'openai_create_response',
        tag: 'openai',
        summary: 'Open Responses',
        description: 'A run of an agency, for clients of the Responses API; with `stream` as its events.',
        ownBody: ResponsesRequest,
        success: {
          200: {
            contentType: 'application/json',
            otherContentType: 'text/event-stream',
            json: ResponseResource,
            description: 'The response.',
          },
        },
        errors: ['overloaded', 'oauth_needs_streaming'],
        errorBody: ApiErrorBody,
        otherResponses: { '4XX': { description: 'The request cannot be used.', body: ApiErrorBody } },
        fastify: { errorHandler: answerError },
      },
      (call, reply) => create(call, reply, { host, options }),
    ),
    ...(store ? storedRoutes(host, store) : []),
  ]
}

async function create({ request }: Call, reply: FastifyReply, { host, options }: Served): Promise<unknown> {
  const body = readResponsesRequest(request.body)
  const isKept = isToBeKept(body, options)
  const target = await selectAgent(host, request, body.model ?? null)
  const { served } = target
  const owner = await host.callerOf(request, served)
  const earlier = await threadBefore(body, { owner, served, store: options.store })
  const { input, items } = readRun(body, target, earlier)
  const isBackground = body.background ?? false
  if (!body.stream && served.signsIn) throw new ServiceError('oauth_needs_streaming')
  const run = await host.begin(request, { served, input, kept: isBackground, ...namesIn(body, options) })
  const { runId } = run
  const id = responseId(runId)
  const stream = streamOf(body, {
    runId,
    approvalsUrl: run.approvalsUrl,
    target,
    input,
    isStrict: options.isStrict,
    isKept,
  })
  const events = new ResponseEvents(stream)
  if (!isKept || !options.store) return answer(reply, run, { body, events })
  const inputItems = items.map(withId)
  const keeping = { id, runId, served, owner, isBackground, stream, inputItems }
  const { response, watch, fail } = storedResponse(keeping, { events, earlier: input.history, store: options.store })
  options.store.put(response)
  if (!isBackground) return answer(reply, run, { body, events, watch })
  void endOf(run, new AbortController().signal, watch).catch(fail)
  if (!body.stream) return events.resource
  const shown = new ResponseEvents(stream)
  return sendEvents(reply, run, (event) => shown.encode(event))
}

/** Whom the request is for, and what it goes on with, as the server keeps it. */
function namesIn(
  { user, previous_response_id: previous }: ResponsesRequest,
  { serverKeeps }: ResponsesOptions,
): Pick<AskedRun, 'onBehalfOf' | 'continues'> {
  return { ...(user && { onBehalfOf: user }), ...(serverKeeps && previous != null && { continues: runIdOf(previous) }) }
}

type Begun = Pick<ResponseStream, 'runId' | 'approvalsUrl' | 'isStrict'> & {
  readonly target: Target
  readonly input: RunInput
  readonly isKept: boolean
}

function streamOf(
  body: ResponsesRequest,
  { runId, approvalsUrl, target, input, isStrict, isKept }: Begun,
): ResponseStream {
  return {
    runId,
    approvalsUrl,
    describe: responseDescriber(body, { id: responseId(runId), model: target.model, isKept }),
    agent: target.agent,
    functions: new Set(input.callerOptions?.functions?.map(({ name }) => name)),
    ...(body.include?.includes('bureau:steps') && { kindOfCall: kindsOf(target.served) }),
    isStrict,
  }
}

const responseId = (runId: string): string => `resp_${runId.replaceAll('-', '')}`

/** Of a server whose runs have no hyphens in their ids. */
const runIdOf = (id: string): string => id.replace(/^resp_/, '')

type Answering = { readonly body: ResponsesRequest; readonly events: ResponseEvents; readonly watch?: EncodeEvent }

async function answer(reply: FastifyReply, run: FaceRun, { body, events, watch }: Answering): Promise<unknown> {
  // Who watches encodes, too.
  const encode = watch ?? ((event) => events.encode(event))
  if (body.stream) return sendEvents(reply, run, encode)
  const ended = await waitForEnd(reply, run, encode)
  if (!ended) return undefined
  const { resource } = events
  if (resource.status === 'completed' || resource.status === 'incomplete') return resource
  throw failedRun(ended.error ?? { code: 'run_failed', message: 'The run was cancelled.' })
}

/** @throws ApiError 400: the request needs that responses are kept, and they are not. */
function isToBeKept(
  { store, background, previous_response_id: previous }: ResponsesRequest,
  options: ResponsesOptions,
) {
  if (options.store) {
    if (background && store === false) throw unsupportedParam('store', 'what runs in the background must be stored')
    return store ?? true
  }
  if (options.serverKeeps) {
    if (background) throw unsupportedParam('background', 'follow the run by its own routes, or leave it out')
    return store ?? true
  }
  const advice = 'this server keeps no responses; its operator can let it (keepResponsesMs), or'
  if (previous != null) throw unsupportedParam('previous_response_id', `${advice} send the whole conversation as input`)
  if (background) throw unsupportedParam('background', `${advice} leave it out`)
  if (store) throw unsupportedParam('store', `${advice} send store: false`)
  return false
}

type Before = { readonly owner: string | null; readonly served: FaceAgency; readonly store: ResponseStore | undefined }

/** @throws ApiError 404, or 400 while the response before is in progress. */
async function threadBefore(
  { previous_response_id: id }: ResponsesRequest,
  { owner, served, store }: Before,
): Promise<readonly Message[]> {
  // Without a store only a server that keeps conversations has let the request come this far.
  if (id == null || !store) return []
  const previous = store.find(id)
  if (!previous || previous.owner !== owner || previous.served.name !== served.name) {
    throw new ApiError(`There is no response ${JSON.stringify(id)}, or it is kept no more.`, {
      status: 404,
      code: 'previous_response_not_found',
      param: 'previous_response_id',
    })
  }
  const thread = previous.thread()
  if (!thread) throw unsupportedParam('previous_response_id', 'that response is still in progress')
  return thread
}

/** @throws ApiError 400 */
function readRun(
  body: ResponsesRequest,
  target: Target,
  earlier: readonly Message[],
): { readonly input: RunInput; readonly items: readonly WireItem[] } {
  const isElsewhere = earlier.length === 0 && body.previous_response_id != null
  const { instructions, history, message, items } = readInput(body.input, isElsewhere ? null : earlier)
  const added = [body.instructions ?? '', ...instructions].filter((text) => text !== '').join('\n\n')
  const input: RunInput = {
    message,
    history,
    agent: target.agent,
    ...(added !== '' && { additionalInstructions: added }),
    ...(body.user_context && { userContext: body.user_context }),
    callerOptions: callerOptions(body, target),
  }
  return { input, items }
}

function callerOptions(body: ResponsesRequest, target: Target): CallerOptions {
  const { parallel_tool_calls: parallel, max_output_tokens: maxTokens } = body
  const format = body.text?.format
  if (format && format.type !== 'text') requireNoOwnFormat(target, 'text.format')
  return {
    ...offeredFunctions(body.tools ?? [], choiceOf(body), target),
    ...(parallel != null && { parallelCalls: parallel }),
    ...(maxTokens != null && { maxOutputTokens: maxTokens }),
    ...(format?.type === 'json_object' && { format: { type: 'json_object' } }),
    ...(format?.type === 'json_schema' && { format: { ...format, strict: format.strict ?? false } }),
  }
}

function choiceOf({ tool_choice: choice }: ResponsesRequest): GivenChoice {
  const param = 'tool_choice'
  if (choice == null || typeof choice === 'string') return { mode: choice ?? 'auto', param }
  if (choice.type === 'function') return { mode: 'required', names: [choice.name], param }
  return { mode: choice.mode, names: choice.tools.map(({ name }) => name), param }
}

function kindsOf({ agency }: FaceAgency): KindOfCall {
  return (agent, name) => {
    if (agency.handoffsFrom(agent).some(({ toolName }) => toolName === name)) return 'handoff'
    return agency.messageToolsOf(agent).some((tool) => tool.name === name) ? 'message' : 'tool'
  }
}

const withId = (item: WireItem): WireItem =>
  item.id === undefined ? { ...item, id: `in_${randomUUID().replaceAll('-', '')}` } : item
