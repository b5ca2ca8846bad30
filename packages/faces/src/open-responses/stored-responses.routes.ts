import { queryNumber, ServiceError, type WireItem } from '@bureau/protocol'
import { type Call, ok, param, type Route, routesOf } from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import type { FaceHost } from '../face-host.ts'
import { API_ROW, ApiError, ApiErrorBody, invalidParam, unsupportedParam } from '../openai/api-error.ts'
import { sendEvents } from '../follow.ts'
import { parseBody } from '../openai/parse-body.ts'
import { ResponseResource } from './resource.ts'
import { ResponseEvents } from './response-events.ts'
import { ownEvents, streamOf } from './response-stream.ts'
import type { ResponseStore, StoredResponse } from './response-store.ts'

const { jsonRoute, rawRoute } = routesOf<object>()

const COMMON = {
  ...API_ROW,
  errors: [],
  otherResponses: { '4XX': { description: 'There is no such response, or not for this.', body: ApiErrorBody } },
} as const

const Deleted = z.object({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) })

const ItemList = z.object({
  object: z.literal('list'),
  data: z.array(z.looseObject({})),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
})

const StreamQuery = z.looseObject({
  stream: z.enum(['true', 'false', '1', '0']).optional().describe('Follow the response.'),
  starting_after: queryNumber(z.int().min(0)).optional().describe('`sequence_number` of the last event that is known.'),
})

const ListQuery = z.looseObject({
  limit: queryNumber(z.int().min(1).max(100)).default(20),
  order: z.enum(['asc', 'desc']).default('desc'),
  after: z.string().optional().describe('The id of an item: those behind it.'),
})

const URL = '/openai/v1/responses/:id'

const ROWS = {
  read: {
    ...COMMON,
    method: 'GET',
    url: URL,
    id: 'openai_get_response',
    summary: 'A stored response',
    description: 'With `stream=true`, one that runs in the background: its events, after `starting_after`.',
    ownQuery: StreamQuery,
    success: {
      200: {
        contentType: 'application/json',
        otherContentType: 'text/event-stream',
        json: ResponseResource,
        description: 'The response as it is now.',
      },
    },
  },
  delete: {
    ...COMMON,
    method: 'DELETE',
    url: URL,
    id: 'openai_delete_response',
    summary: 'Forget a stored response',
    success: { 200: Deleted },
  },
  cancel: {
    ...COMMON,
    method: 'POST',
    url: `${URL}/cancel`,
    id: 'openai_cancel_response',
    summary: 'Stop one that runs in the background',
    success: { 200: ResponseResource },
  },
  inputItems: {
    ...COMMON,
    method: 'GET',
    url: `${URL}/input_items`,
    id: 'openai_list_input_items',
    summary: 'The items of its request',
    ownQuery: ListQuery,
    success: { 200: ItemList },
  },
} as const

type Served = { readonly store: ResponseStore; readonly isStrict: boolean }

/** What OpenAI has besides the specification: read, cancel and delete a response, and the items of its request. */
export function storedRoutes(host: FaceHost, { store, isStrict }: Served): readonly Route<object>[] {
  const find = (call: Call): Promise<StoredResponse> => findOwn(store, call)
  const cancel = ({ request }: Call, { record, served }: StoredResponse): Promise<boolean> =>
    host.cancel(request, { served, runId: record.runId })
  return [
    rawRoute(ROWS.read, async (call, reply) => read(host, await find(call), { call, reply, isStrict })),
    jsonRoute(ROWS.delete, async (call) => {
      const response = await find(call)
      const { id, request } = response.record
      if (request.background) await cancel(call, response)
      await store.delete(call.request, response)
      return ok({ id, object: 'response' as const, deleted: true as const })
    }),
    jsonRoute(ROWS.cancel, async (call) => {
      const response = await find(call)
      if (!response.record.request.background) {
        throw unsupportedParam('response_id', 'only background responses can be cancelled')
      }
      if (await cancel(call, response)) await response.ended
      return ok(await response.resource())
    }),
    jsonRoute(ROWS.inputItems, async (call) =>
      ok(itemList((await find(call)).record.inputItems, parseBody(ListQuery, call.request.query))),
    ),
  ]
}

/** @throws ApiError 404: of other callers' responses nobody learns that they exist. */
async function findOwn(store: ResponseStore, call: Call): Promise<StoredResponse> {
  const id = param(call, 'id')
  const response = await store.find(call.request, id)
  if (response) return response
  throw new ApiError(`There is no response ${JSON.stringify(id.slice(0, 100))}, or it is kept no more.`, {
    status: 404,
    code: 'response_not_found',
  })
}

type Asked = { readonly call: Call; readonly reply: FastifyReply; readonly isStrict: boolean }

async function read(host: FaceHost, response: StoredResponse, { call, reply, isStrict }: Asked): Promise<unknown> {
  const { stream, starting_after: after } = parseBody(StreamQuery, call.request.query)
  if (stream !== 'true' && stream !== '1') return response.resource()
  const { record, served } = response
  if (!record.request.background) throw unsupportedParam('stream', 'only background responses can be streamed again')
  const run = await host.find(call.request, { served, runId: record.runId })
  if (!run) throw new ServiceError('run_not_found', { message: 'The events are kept no more. Read it without stream.' })
  const events = new ResponseEvents(streamOf(record, { served, run, isStrict }), after)
  const own = { ...run, read: (_: number, signal: AbortSignal) => ownEvents(record, run, signal) }
  return sendEvents(reply, own, {
    encode: (event) => events.encode(event),
    refused: (error) => events.refuse(error),
  })
}

/** As the API has them: each with its type, and what a message says in parts. */
function asListed(item: WireItem): Record<string, unknown> {
  const { type = 'message', role, content } = item
  if (type !== 'message' || typeof content !== 'string') return { ...item, type }
  return { ...item, type, content: [{ type: role === 'assistant' ? 'output_text' : 'input_text', text: content }] }
}

/** @throws ApiError 400: `after` is not the id of one of them. */
function itemList(items: readonly WireItem[], { limit, order, after }: z.output<typeof ListQuery>) {
  const ordered = order === 'asc' ? items : items.toReversed()
  const start = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1
  if (after !== undefined && start === 0) throw invalidParam('after', 'is not the id of an item of this list')
  const data = ordered.slice(start, start + limit)
  return {
    object: 'list' as const,
    data: data.map(asListed),
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: start + limit < ordered.length,
  }
}
