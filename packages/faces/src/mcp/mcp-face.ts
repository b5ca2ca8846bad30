import { randomUUID } from 'node:crypto'
import { type Call, onClientLost, type Route, routesOf } from '@bureau/runtime'
import { ServiceError } from '@bureau/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { challengeOf, metadataRoutes } from './resource-metadata.ts'
import type { McpSdk } from './ask-person.ts'
import { type McpOptions, mcpServer } from './mcp-server.ts'
import { INVALID_PARAMS, METHOD_NOT_FOUND, requireBody, rpcErrorHandler, rpcIdOf } from '../json-rpc/rpc-errors.ts'

const MIB = 1_048_576

const McpRequest = z
  .looseObject({ jsonrpc: z.literal('2.0'), method: z.string(), params: z.looseObject({}).optional() })
  .meta({ id: 'McpRequest' })

const McpErrorBody = z
  .looseObject({ jsonrpc: z.literal('2.0'), error: z.looseObject({ code: z.int(), message: z.string() }) })
  .meta({ id: 'McpError' })
const { rawRoute } = routesOf<object, { readonly open?: true }>()

/**
 * `POST /mcp`: the agencies and tools of a server as tools of the Model Context Protocol, in its revisions 2026-07-28 and
 * 2025-11-25 (and those before it that its SDK speaks). Nothing is kept of a session. A client that hangs up ends its calls, and may
 * cancel each.
 */
export function mcpRoutes(options: McpOptions): Route<object, { readonly open?: true }>[] {
  let opening: Promise<McpHandlers> | undefined
  const spec = {
    method: 'POST',
    url: '/mcp',
    id: 'mcp',
    tag: 'mcp',
    summary: 'Model Context Protocol',
    description: 'JSON-RPC 2.0 over streamable HTTP, revisions 2026-07-28 and 2025-11-25.',
    success: {
      200: {
        contentType: 'application/json',
        json: z.looseObject({}),
        otherContentType: 'text/event-stream',
        description: 'A JSON-RPC response.',
      },
      202: null,
    },
    errors: [],
    ownBody: McpRequest,
    errorBody: McpErrorBody,
    maxBodyBytes: 4 * MIB,
    fastify: { errorHandler: rpcErrorHandler((request) => challengeOf(options, request)) },
  } as const
  const answer = async ({ request }: Call, reply: FastifyReply): Promise<unknown> => {
    options.requireOrigin(request)
    requireBody(request)
    if (typeof request.body !== 'object' || request.body === null) {
      throw new ServiceError('invalid_request', { message: 'Send a message of JSON-RPC 2.0, which is a JSON object.' })
    }
    const handlers = await (opening ??= openHandlers(options))
    return handlers.answer(request, reply)
  }
  return [rawRoute(spec, answer), ...metadataRoutes(options)]
}

type McpHandlers = { readonly answer: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown> }

/**
 * The SDK is not installed with the server, because it is large and not everybody needs it.
 *
 * @throws ServiceError `package_missing`
 */
async function loadSdk(): Promise<McpSdk> {
  try {
    return await import('@modelcontextprotocol/server')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw new ServiceError('package_missing', { cause })
  }
}

async function openHandlers(options: McpOptions): Promise<McpHandlers> {
  const sdk = await loadSdk()
  const requests = new WeakMap<Request, FastifyRequest>()
  const serverOf = ({ requestInfo }: { requestInfo?: Request }) => mcpServer(sdk, options, requests.get(requestInfo!)!)
  const onerror = (error: Error): void => options.log.debug({ err: error }, 'a request of the protocol was refused')
  const brief = sdk.createMcpHandler(serverOf, { onerror })
  // Calls may take minutes: their answer begins at once, and comments keep the connection open.
  const long = sdk.createMcpHandler(serverOf, { onerror, responseMode: 'sse' })
  const calls: Calls = new Map()
  const answer = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    const left = new AbortController()
    onClientLost(reply, () => left.abort())
    const asked = requestOf(request, left.signal)
    requests.set(asked, request)
    const { method, id, params } = request.body as RpcRequest
    const refusal = invalidParams(sdk, request.body as RpcRequest)
    if (refusal) return reply.send(refusal)
    if (method === 'initialize') reply.header(SESSION, randomUUID())
    if (method === 'notifications/cancelled') calls.get(keyOf(request, params?.requestId) ?? '')?.abort()
    if (method === 'tools/call') keepUntilClosed(calls, { key: keyOf(request, id), call: left, reply })
    if (method === 'subscriptions/listen') return reply.code(404).send(noSubscriptions(request.body as RpcRequest))
    const response = await (method === 'tools/call' ? long : brief).fetch(asked, { parsedBody: request.body })
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
    reply.header('x-accel-buffering', 'no')
    return reply.send(isStream && response.body ? new Response(begunWithComment(response.body), response) : response)
  }
  return { answer }
}

/** The head of an answer leaves with its first bytes, and the SDK's own first ones come after 15 seconds, or with the result. */
function begunWithComment(stream: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  return stream.pipeThrough(new TransformStream({ start: (controller) => controller.enqueue(COMMENT) }))
}

const COMMENT = new TextEncoder().encode(': the answer follows\n\n')

type RpcRequest = {
  readonly method?: unknown
  readonly id?: unknown
  readonly params?: { readonly requestId?: unknown }
}

/** The calls under way that their clients can cancel, each with what stops it. */
type Calls = Map<string, AbortController>

const SESSION = 'mcp-session-id'

/**
 * Names a call for the client that has made it, and for nobody else: every client counts its requests from 0, so that the id which it
 * was given at its start belongs to the name. Undefined for a client without one.
 */
function keyOf({ headers }: FastifyRequest, requestId: unknown): string | undefined {
  const session = headers[SESSION]
  return session === undefined ? undefined : JSON.stringify([session, headers.authorization, requestId])
}

type Kept = { readonly key: string | undefined; readonly call: AbortController; readonly reply: FastifyReply }

function keepUntilClosed(calls: Calls, { key, call, reply }: Kept): void {
  if (key === undefined) return
  calls.set(key, call)
  reply.raw.once('close', () => calls.get(key) === call && calls.delete(key))
}

/** The SDK checks these only where it takes whatever is thrown for a failure of the server. */
const UNCHECKED = new Map<unknown, 'InitializeRequest' | 'ListToolsRequest'>([
  ['initialize', 'InitializeRequest'],
  ['tools/list', 'ListToolsRequest'],
])

/** The error with which a request is answered whose params are not valid. */
function invalidParams({ specTypeSchemas }: McpSdk, body: RpcRequest): object | undefined {
  const type = UNCHECKED.get(body.method)
  const issues = type && specTypeSchemas[type]['~standard'].validate(body).issues
  if (!issues) return undefined
  const message = issues.map(({ path = [], message: why }) => `${path.map(String).join('.')}: ${why}`).join('; ')
  return { jsonrpc: '2.0', id: rpcIdOf(body), error: { code: INVALID_PARAMS, message } }
}

/** What is listed changes only with the process, so there is nothing to wait for. */
function noSubscriptions({ id = null }: RpcRequest): object {
  return { jsonrpc: '2.0', id, error: { code: METHOD_NOT_FOUND, message: 'Method not found' } }
}

/** What the SDK reads of a request besides its body, which was read before. */
function requestOf({ method, url, headers }: FastifyRequest, signal: AbortSignal): Request {
  const sent = new Headers()
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) sent.set(name, String(value))
  return new Request(`http://localhost${url}`, { method, headers: sent, signal })
}
