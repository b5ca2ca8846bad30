import { randomUUID } from 'node:crypto'
import type { CallerOptions, RunInput } from '@bureau/framework'
import { ServiceError, type WireItem } from '@bureau/protocol'
import { type Call, type EncodeEvent, type Route, routesOf } from '@bureau/runtime'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { FaceAgency, FaceHost, FaceRun } from '../face-host.ts'
import { beginRun } from '../begin.ts'
import {
  afterBegin,
  API_ROW,
  ApiError,
  ApiErrorBody,
  failedRun,
  invalidParam,
  REMEDIES,
  unsupportedParam,
} from '../openai/api-error.ts'
import { callerOptionsOf } from '../openai/caller-functions.ts'
import { sendEvents, waitForEnd } from '../follow.ts'
import { requireJson } from '../json-rpc/rpc-errors.ts'
import { selectAgent, type Target } from '../openai/select-agent.ts'
import { readResponsesRequest, ResponsesRequest } from './read-request.ts'
import { nowSeconds, ResponseResource } from './resource.ts'
import { ResponseEvents } from './response-events.ts'
import { streamOf } from './response-stream.ts'
import type { ResponseRecord } from './response-record.ts'
import type { BegunResponse, Earlier, ResponseStore, StoredResponse } from './response-store.ts'
import { storedRoutes } from './stored-responses.routes.ts'
import { readInput } from './wire-items.ts'

export type ResponsesOptions = {
  /** Absent: nothing is kept, and what needs it is refused. */
  readonly store?: ResponseStore | undefined
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
        ...API_ROW,
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
        otherResponses: { '4XX': { description: 'The request cannot be used.', body: ApiErrorBody } },
      },
      (call, reply) => create(call, reply, { host, options }),
    ),
    ...(store ? storedRoutes(host, { store, isStrict: options.isStrict }) : []),
  ]
}

async function create({ request }: Call, reply: FastifyReply, { host, options }: Served): Promise<unknown> {
  requireJson(request)
  const body = readResponsesRequest(request.body)
  const { store, isStrict } = options
  const isKept = isToBeKept(body, store)
  const target = await selectAgent(host, request, body.model ?? null)
  const { served } = target
  const previous = await findPrevious(body, { request, served, store })
  const { input, decisions, items } = readRun(body, target, await earlierOf(body, { previous, store }))
  const isBackground = body.background === true
  if (!body.stream && served.signsIn) throw new ServiceError('oauth_needs_streaming')
  if (store?.continuesRuns && decisions.length > 0 && !previous) {
    throw invalidParam('previous_response_id', 'name the response that waits for the decision', 'missing')
  }
  const run = await beginRun({ host, remedies: REMEDIES }, request, {
    served,
    input,
    decisions,
    kept: isBackground,
    ...(body.user && { onBehalfOf: body.user }),
    ...(store?.continuesRuns && previous && { continues: previous.record.runId }),
  })
  const record = recordOf(body, { run, target, isKept, input, inputItems: items.map(withId) })
  const events = new ResponseEvents(streamOf(record, { served, run, isStrict }))
  const begun = { record, served, run, earlier: input.history, events }
  return afterBegin({ request, run }, async () => {
    const encode = await encoderOf(request, begun, store)
    return isBackground && !body.stream ? events.resource : answer(reply, run, { body, events, encode })
  })
}

async function encoderOf(
  request: FastifyRequest,
  begun: BegunResponse,
  store: ResponseStore | undefined,
): Promise<EncodeEvent> {
  if (begun.record.isKept && store) return store.put(request, begun)
  return (event) => begun.events.encode(event)
}

type NewRecord = Pick<ResponseRecord, 'isKept' | 'inputItems'> & {
  readonly run: FaceRun
  readonly target: Target
  readonly input: RunInput
}

function recordOf(body: ResponsesRequest, { run, target, input, ...record }: NewRecord): ResponseRecord {
  const { runId, after } = run
  const { input: _, user_context: __, ...request } = body
  return {
    ...record,
    id: responseId(run),
    runId,
    after,
    agency: target.served.name,
    agent: target.agent,
    model: target.model,
    createdAt: nowSeconds(),
    functions: (input.callerOptions?.functions ?? []).map(({ name }) => name),
    request,
  }
}

/** A run that goes on has another response. */
const responseId = ({ runId, after }: FaceRun): string =>
  `resp_${runId.replaceAll('-', '')}${after === 0 ? '' : `-${after}`}`

type Answering = { readonly body: ResponsesRequest; readonly events: ResponseEvents; readonly encode: EncodeEvent }

async function answer(reply: FastifyReply, run: FaceRun, { body, events, encode }: Answering): Promise<unknown> {
  if (body.stream) return sendEvents(reply, run, { encode, refused: (error) => events.refuse(error) })
  const ended = await waitForEnd(reply, run, encode)
  if (!ended) return undefined
  const { resource } = events
  if (resource.status === 'completed' || resource.status === 'incomplete') return resource
  throw failedRun(ended.error)
}

/** @throws ApiError 400: the request needs that responses are kept, and they are not. */
function isToBeKept(
  { store, background, previous_response_id: previous }: ResponsesRequest,
  kept: ResponseStore | undefined,
): boolean {
  if (kept) {
    if (background && store === false) throw unsupportedParam('store', 'what runs in the background must be stored')
    return store ?? true
  }
  const advised = (advice: string): string =>
    `this server keeps no responses. ${advice}, or have its operator set BUREAU_KEEP_RESPONSES_SECONDS.`
  if (previous != null) {
    throw unsupportedParam('previous_response_id', advised('Send the whole conversation as input'))
  }
  if (background) throw unsupportedParam('background', advised('Leave it out'))
  if (store) throw unsupportedParam('store', advised('Send store: false'))
  return false
}

type Finding = {
  readonly request: FastifyRequest
  readonly served: FaceAgency
  readonly store: ResponseStore | undefined
}

/** @throws ApiError 404 */
async function findPrevious(
  { previous_response_id: id }: ResponsesRequest,
  { request, served, store }: Finding,
): Promise<StoredResponse | undefined> {
  if (id == null || !store) return undefined
  const previous = await store.find(request, id)
  if (previous?.served.name === served.name) return previous
  throw new ApiError(`There is no response ${JSON.stringify(id)}, or it is kept no more.`, {
    status: 404,
    code: 'previous_response_not_found',
    param: 'previous_response_id',
  })
}

type Asked = { readonly input: RunInput } & Pick<ReturnType<typeof readInput>, 'decisions' | 'items'>

type Before = { readonly previous: StoredResponse | undefined; readonly store: ResponseStore | undefined }

/** @throws ApiError 400 */
function readRun(body: ResponsesRequest, target: Target, earlier: Earlier): Asked {
  const { instructions, history, message, ...asked } = readInput(body.input, earlier)
  const added = [body.instructions ?? '', ...instructions].filter((text) => text !== '').join('\n\n')
  const input: RunInput = {
    message,
    history,
    agent: target.agent,
    ...(added !== '' && { additionalInstructions: added }),
    ...(body.user_context && { userContext: body.user_context }),
    callerOptions: callerOptions(body, target),
  }
  return { input, ...asked }
}

/** @throws ApiError 400 while the response before is in progress. */
async function earlierOf({ input }: ResponsesRequest, { previous, store }: Before): Promise<Earlier> {
  if (!previous) return { thread: [], known: [] }
  // A server that has the conversation reads its end only where outputs must fit its calls.
  if (store?.continuesRuns && !bringsOutputs(input)) return { thread: null, known: [] }
  const known = await previous.thread()
  if (!known) throw unsupportedParam('previous_response_id', 'that response is still in progress')
  return known
}

const bringsOutputs = (input: ResponsesRequest['input']): boolean =>
  Array.isArray(input) &&
  input.some((item) => (item as { readonly type?: unknown } | null)?.type === 'function_call_output')

function callerOptions(body: ResponsesRequest, target: Target): CallerOptions {
  const { max_output_tokens: maxOutputTokens, text } = body
  return callerOptionsOf({ ...body, maxOutputTokens, format: text?.format, formatParam: 'text.format' }, target)
}

const withId = (item: WireItem): WireItem =>
  item.id === undefined ? { ...item, id: `in_${randomUUID().replaceAll('-', '')}` } : item
