import { ServiceError } from '@bureau/protocol'
import { endingWith, onClientLost, streamResponse } from '@bureau/runtime'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { FaceAgency } from '../face-host.ts'
import { type RpcId, rpcIdOf } from '../json-rpc/rpc-errors.ts'
import { A2aError, toA2aError } from './a2a-error.ts'
import { type A2aOperations, noExtendedCard, type Updates } from './operations.ts'
import type { Asked } from './tasks.ts'

/** A request of JSON-RPC 2.0. */
export const RpcRequest = z.looseObject({
  jsonrpc: z.literal('2.0'),
  id: z.union([z.string(), z.number()]).nullish(),
  method: z.string(),
  params: z.looseObject({}).nullish(),
})

type Method = (operations: A2aOperations, asked: Asked, signal: AbortSignal) => Promise<object>

const METHODS: Readonly<Record<string, Method>> = {
  SendMessage: (operations, asked, signal) => operations.send(asked, signal),
  GetTask: (operations, asked) => operations.get(asked),
  ListTasks: (operations, asked) => operations.list(asked),
  CancelTask: (operations, asked, signal) => operations.cancel(asked, signal),
  CreateTaskPushNotificationConfig: (operations, asked) => operations.createPush(asked),
  GetTaskPushNotificationConfig: (operations, asked) => operations.getPush(asked),
  ListTaskPushNotificationConfigs: (operations, asked) => operations.listPushes(asked),
  DeleteTaskPushNotificationConfig: (operations, asked) => operations.deletePush(asked),
  GetExtendedAgentCard: async () => {
    throw noExtendedCard()
  },
}

const STREAMS: Readonly<Record<string, (operations: A2aOperations, asked: Asked) => Promise<Updates>>> = {
  SendStreamingMessage: (operations, asked) => operations.stream(asked),
  SubscribeToTask: (operations, asked) => operations.subscribe(asked),
}

/** Answers a JSON-RPC request (specification 9). Refusals are answers with status 200, as JSON-RPC has it. */
export async function answerRpc(
  operations: A2aOperations,
  served: FaceAgency,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const id = rpcIdOf(request.body)
  try {
    const { id: given, method, params } = readRequest(request.body)
    const asked = { served, params, request }
    if (given === undefined) return await takeNotification(operations, method, asked, reply)
    const stream = Object.hasOwn(STREAMS, method) ? STREAMS[method] : undefined
    if (stream) {
      const failed = (error: ServiceError): string =>
        `data: ${JSON.stringify(rpcError(toA2aError(error, request), id))}\n\n`
      return await sendUpdates(reply, await stream(operations, asked), { frame: frameOf(id), failed })
    }
    const carryOut = Object.hasOwn(METHODS, method) ? METHODS[method] : undefined
    if (!carryOut) throw new A2aError('METHOD_NOT_FOUND', `Method not found: ${method.slice(0, 100)}`)
    return { jsonrpc: '2.0', id, result: await carryOut(operations, asked, leftSignal(reply)) }
  } catch (error) {
    return rpcError(toA2aError(error, request), id)
  }
}

/**
 * A request without an id is carried out and not answered, whatever becomes of it (JSON-RPC 2.0, section 4.1): a message begins its
 * task, and nobody waits for its end.
 */
async function takeNotification(
  operations: A2aOperations,
  method: string,
  asked: Asked,
  reply: FastifyReply,
): Promise<unknown> {
  const wanted = method === 'SendMessage' ? 'SendStreamingMessage' : method
  try {
    if (Object.hasOwn(STREAMS, wanted)) await STREAMS[wanted]!(operations, asked)
    else if (Object.hasOwn(METHODS, wanted)) await METHODS[wanted]!(operations, asked, leftSignal(reply))
  } catch (error) {
    toA2aError(error, asked.request) // logs what is not the client's doing
  }
  return reply.code(204).send()
}

/** An error as JSON-RPC has it (specification 9.5). */
export function rpcError({ code, message, details }: A2aError, id: RpcId): object {
  return { jsonrpc: '2.0', id, error: { code, message, data: details } }
}

function readRequest(body: unknown): z.output<typeof RpcRequest> {
  const parsed = RpcRequest.safeParse(body)
  if (parsed.success) return parsed.data
  throw new A2aError('INVALID_REQUEST', 'Request payload validation error: send one JSON-RPC 2.0 request.')
}

function frameOf(id: RpcId): (json: string) => string {
  const head = `data: {"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`
  return (json) => `${head}${json}}\n\n`
}

type Frames = {
  readonly frame: (json: string) => string
  /** What a stream ends with whose client may read no longer. */
  readonly failed: (error: ServiceError) => string
}

/** Streams what happens to a task. Whoever leaves ends nothing. */
export async function sendUpdates(reply: FastifyReply, updates: Updates, { frame, failed }: Frames): Promise<void> {
  const left = new AbortController()
  try {
    await streamResponse(reply, {
      contentType: 'text/event-stream; charset=utf-8',
      chunks: endingWith(updates(frame, left.signal), (error) =>
        error instanceof ServiceError ? failed(error) : undefined,
      ),
      keepalive: true,
      onClientLost: () => left.abort(),
    })
  } catch (error) {
    if (!left.signal.aborted) throw error
  }
}

/** Aborts when the client of a request that waits has left. */
export function leftSignal(reply: FastifyReply): AbortSignal {
  const left = new AbortController()
  onClientLost(reply, () => left.abort())
  return left.signal
}
