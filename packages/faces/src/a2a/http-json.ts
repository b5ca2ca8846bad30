import { Readable } from 'node:stream'
import { type Call, errorGate, param } from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
import type { z } from 'zod'
import type { FaceAgency } from '../face-host.ts'
import { A2aError, toA2aError } from './a2a-error.ts'
import { leftSignal, sendUpdates } from './json-rpc.ts'
import { type A2aOperations, noExtendedCard, noPushNotifications } from './operations.ts'
import { SendMessage } from './protocol.ts'
import type { Asked } from './tasks.ts'

const MEDIA_TYPE = 'application/a2a+json'

/** A request of the HTTP+JSON binding (specification 11), in the agency that it is for. */
type HttpCall = {
  readonly operations: A2aOperations
  readonly served: FaceAgency
  readonly call: Call
  readonly reply: FastifyReply
}

/** What can be asked by HTTP+JSON: the method, the path below the agency's, and what answers. */
export const HTTP_ROWS: readonly {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly summary: string
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
    answer: ({ operations, ...at }) => json(at, () => operations.list(queryOf(at))),
  },
  {
    method: 'GET',
    path: '/tasks/:task',
    summary: 'Get a task, or with `:subscribe` behind its id follow it',
    isStream: true,
    answer: (call) => onTask(call),
  },
  {
    method: 'POST',
    path: '/tasks/:task',
    summary: 'With `:cancel` behind its id, cancel a task; with `:subscribe`, follow it',
    isStream: true,
    ignoresBody: true,
    answer: (call) => onTask(call),
  },
  ...(['GET', 'POST'] as const).map((method) => ({
    method,
    path: '/tasks/:task/pushNotificationConfigs',
    summary: 'Not supported',
    answer: refuse(noPushNotifications),
  })),
  ...(['GET', 'DELETE'] as const).map((method) => ({
    method,
    path: '/tasks/:task/pushNotificationConfigs/:config',
    summary: 'Not supported',
    answer: refuse(noPushNotifications),
  })),
  { method: 'GET', path: '/extendedAgentCard', summary: 'Not supported', answer: refuse(noExtendedCard) },
]

type At = Omit<HttpCall, 'operations'>

/** `{id}`, `{id}:cancel` or `{id}:subscribe`; the specification has the last one with POST in one place, with GET in another. */
async function onTask({ operations, ...at }: HttpCall): Promise<unknown> {
  const { request } = at.call
  if (request.body instanceof Readable) request.body.resume()
  const [, id, verb = ''] = /^(.*?)(?::([a-z]+))?$/.exec(param(at.call, 'task'))!
  const asked = { ...queryOf(at), params: { ...(request.query as object), id } }
  if (verb === 'subscribe') return stream(at, () => operations.subscribe(asked))
  if (verb === 'cancel' && request.method === 'POST') return json(at, () => operations.cancel(asked))
  if (verb === '' && request.method === 'GET') return json(at, () => operations.get(asked))
  throw new A2aError('METHOD_NOT_FOUND', 'There is no such route.')
}

async function json({ reply, call }: At, work: () => Promise<object>): Promise<unknown> {
  const answer = await work().catch((error: unknown) => {
    throw toA2aError(error, call.request)
  })
  return reply.type(MEDIA_TYPE).send(JSON.stringify(answer))
}

async function stream({ reply }: At, begin: () => ReturnType<A2aOperations['stream']>): Promise<unknown> {
  return sendUpdates(reply, await begin(), (text) => `data: ${text}\n\n`)
}

function refuse(error: () => A2aError): () => Promise<never> {
  return async () => {
    throw error()
  }
}

const bodyOf = ({ served, call: { request } }: At): Asked => ({ served, params: request.body, request })
const queryOf = ({ served, call: { request } }: At): Asked => ({ served, params: request.query, request })

/** An error as `google.rpc.Status` in JSON (specification 11.6). */
export const sendHttpError: ReturnType<typeof errorGate> = errorGate((error, request) => {
  const { status, grpc, message, details, headers } = toA2aError(error, request)
  const body = { error: { code: status, status: grpcOf(status) ?? grpc, message, details } }
  return { status, headers: { ...headers, 'content-type': MEDIA_TYPE }, body }
})

/** What our own refusals are called there. */
function grpcOf(status: number): string | undefined {
  const names: Readonly<Record<number, string>> = {
    401: 'UNAUTHENTICATED',
    403: 'PERMISSION_DENIED',
    409: 'ABORTED',
    429: 'RESOURCE_EXHAUSTED',
    503: 'UNAVAILABLE',
  }
  return names[status]
}
