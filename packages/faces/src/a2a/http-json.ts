import { type Call, type ErrorHandler, errorGate, param } from '@bureau/runtime'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { FaceAgency } from '../face-host.ts'
import { requireJson } from '../json-rpc/rpc-errors.ts'
import { A2aError, toA2aError } from './a2a-error.ts'
import { leftSignal, sendUpdates } from './json-rpc.ts'
import { type A2aOperations, noExtendedCard } from './operations.ts'
import { CreatePush, GetTask, ListTasks, SendMessage } from './protocol.ts'
import type { Asked } from './tasks.ts'

const MEDIA_TYPE = 'application/a2a+json'

/** A request of the HTTP+JSON binding (specification 11), in the agency that it is for. */
type HttpCall = {
  readonly operations: A2aOperations
  readonly served: FaceAgency
  readonly call: Call
  readonly reply: FastifyReply
}

const PUSHES = '/tasks/:task/pushNotificationConfigs'

/** What can be asked by HTTP+JSON: the method, the path below the agency's, and what answers. */
export const HTTP_ROWS: readonly {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly summary: string
  readonly query?: z.ZodType
  readonly body?: z.ZodType
  readonly isStream?: true
  /** True: a body means nothing, and may be empty whatever its content type. */
  readonly ignoresBody?: true
  readonly answer: (call: HttpCall) => Promise<unknown>
}[] = [
  {
    method: 'POST',
    path: '/message::send',
    summary: 'Send a message and wait for its task',
    body: SendMessage,
    answer: ({ operations, ...at }) => json(at, () => operations.send(bodyOf(at), leftSignal(at.reply))),
  },
  {
    method: 'POST',
    path: '/message::stream',
    summary: 'Send a message and follow its task',
    body: SendMessage,
    isStream: true,
    answer: ({ operations, ...at }) => stream(at, () => operations.stream(bodyOf(at))),
  },
  {
    method: 'GET',
    path: '/tasks',
    summary: 'List tasks',
    query: ListTasks,
    answer: ({ operations, ...at }) => json(at, () => operations.list(queryOf(at))),
  },
  {
    method: 'GET',
    path: '/tasks/:task',
    summary: 'Get a task, or with `:subscribe` behind its id follow it',
    query: GetTask.omit({ id: true }),
    isStream: true,
    answer: onTask,
  },
  {
    method: 'POST',
    path: '/tasks/:task',
    summary: 'With `:cancel` behind its id, cancel a task; with `:subscribe`, follow it',
    isStream: true,
    ignoresBody: true,
    answer: onTask,
  },
  {
    method: 'GET',
    path: PUSHES,
    summary: 'List who is notified of a task',
    answer: ({ operations, ...at }) => json(at, () => operations.listPushes(pushOf(at))),
  },
  {
    method: 'POST',
    path: PUSHES,
    summary: 'Be notified of a task',
    body: CreatePush.omit({ taskId: true }),
    answer: ({ operations, ...at }) => json(at, () => operations.createPush(pushOf(at, bodyIn(at.call.request)))),
  },
  {
    method: 'GET',
    path: `${PUSHES}/:config`,
    summary: 'Get who is notified of a task',
    answer: ({ operations, ...at }) => json(at, () => operations.getPush(pushOf(at))),
  },
  {
    method: 'DELETE',
    path: `${PUSHES}/:config`,
    summary: 'Be notified of a task no more',
    ignoresBody: true,
    answer: ({ operations, ...at }) => json(at, () => operations.deletePush(pushOf(at))),
  },
  {
    method: 'GET',
    path: '/extendedAgentCard',
    summary: 'Not supported',
    answer: async () => {
      throw noExtendedCard()
    },
  },
]

type At = Omit<HttpCall, 'operations'>

/** `{id}`, `{id}:cancel` or `{id}:subscribe`; the specification has the last one with POST in one place, with GET in another. */
async function onTask({ operations, ...at }: HttpCall): Promise<unknown> {
  const { request } = at.call
  const [, id, verb = ''] = /^(.*?)(?::([a-z]+))?$/.exec(param(at.call, 'task'))!
  const asked = { ...queryOf(at), params: { ...(request.query as object), id } }
  if (verb === 'subscribe') return stream(at, () => operations.subscribe(asked))
  if (verb === 'cancel' && request.method === 'POST')
    return json(at, () => operations.cancel(asked, leftSignal(at.reply)))
  if (verb === '' && request.method === 'GET') return json(at, () => operations.get(asked))
  throw new A2aError('METHOD_NOT_FOUND', 'There is no such route.')
}

async function json({ reply, call }: At, work: () => Promise<object>): Promise<unknown> {
  const answer = await work().catch((error: unknown) => {
    throw toA2aError(error, call.request)
  })
  return reply.type(MEDIA_TYPE).send(JSON.stringify(answer))
}

async function stream({ reply, call }: At, begin: () => ReturnType<A2aOperations['stream']>): Promise<unknown> {
  return sendUpdates(reply, await begin(), {
    frame: (text) => `data: ${text}\n\n`,
    failed: (error) => `data: ${JSON.stringify(httpErrorOf(toA2aError(error, call.request)))}\n\n`,
  })
}

const bodyOf = ({ served, call: { request } }: At): Asked => ({ served, params: bodyIn(request), request })
const queryOf = ({ served, call: { request } }: At): Asked => ({ served, params: request.query, request })

/** @throws ServiceError `invalid_content_type` it is something else than JSON, which was not read. */
function bodyIn(request: FastifyRequest): unknown {
  requireJson(request)
  return request.body
}

/** The ids are those of the path, whatever the body says. */
function pushOf({ served, call }: At, body?: unknown): Asked {
  const { task: taskId, config: id } = call.params
  const params = { ...(body as object | undefined), taskId, ...(id !== undefined && { id }) }
  return { served, params, request: call.request }
}

/** An error as `google.rpc.Status` in JSON (specification 11.6). */
export const sendHttpError: ErrorHandler = errorGate((error, request) => {
  const refused = toA2aError(error, request)
  const { status, headers } = refused
  return { status, headers: { ...headers, 'content-type': MEDIA_TYPE }, body: httpErrorOf(refused) }
})

function httpErrorOf({ status, grpc, message, details }: A2aError): object {
  return { error: { code: status, status: GRPC_NAMES[status] ?? grpc, message, details } }
}

/** What our own refusals are called there. */
const GRPC_NAMES: Readonly<Record<number, string>> = {
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  405: 'UNIMPLEMENTED',
  409: 'ABORTED',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
}
