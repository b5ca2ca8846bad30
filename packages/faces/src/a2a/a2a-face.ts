import { Readable } from 'node:stream'
import { type Call, type ErrorHandler, errorGate, param, type Route, type RouteSpec, routesOf } from '@bureau/runtime'
import { ServiceError } from '@bureau/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { baseUrlOf } from '../base-url.ts'
import type { FaceAgency, FaceHost } from '../face-host.ts'
import { requireBody, rpcIdOf } from '../json-rpc/rpc-errors.ts'
import { A2aError, HttpErrorBody, RpcErrorBody, toA2aError } from './a2a-error.ts'
import { agentCard, cardTag } from './agent-card.ts'
import { HTTP_ROWS, sendHttpError } from './http-json.ts'
import { answerRpc, rpcError, RpcRequest } from './json-rpc.ts'
import { A2aOperations } from './operations.ts'
import { PROTOCOL_VERSION } from './protocol.ts'
import type { PushConfigs } from './push.ts'
import type { TaskStore } from './tasks.ts'

type A2aOptions = {
  readonly host: FaceHost
  readonly tasks: TaskStore
  readonly pushes: PushConfigs
  /** Of the server, which cards name. */
  readonly version: string
  /** The address under which callers know the server. Default: the one that they have used. */
  readonly serverUrl?: string | undefined
  /** True: callers need a bearer token. */
  readonly needsToken: boolean
  /** True: cards may be read without one. */
  readonly openCards: boolean
  /** @throws ServiceError the request comes from a page that may not call. */
  readonly requireOrigin: (request: FastifyRequest) => void
}

/** What a row of the server says besides. */
type Rules = { readonly open?: true }

const { rawRoute } = routesOf<object, Rules>()

const CARD_MAX_AGE_SECONDS = 300
const CARD_PATH = '/.well-known/agent-card.json'

/**
 * Agent2Agent 1.0: each agency is an agent at `/a2a/<agency>`, with a card, by JSON-RPC and by HTTP+JSON. The host's own card
 * is that of its first agency.
 */
export function a2aRoutes(options: A2aOptions): Route<object, Rules>[] {
  const operations = new A2aOperations(options.tasks, options.pushes)
  const rpc = row({
    method: 'POST',
    url: '/a2a/:agency',
    summary: 'Agent2Agent by JSON-RPC',
    body: RpcRequest,
    isStream: true,
    takesNotifications: true,
    errorBody: RpcErrorBody,
    errorHandler: answerRpcError,
  })
  const cards = ['/a2a/:agency', ''].map((path) => {
    const spec = {
      ...row({ ...OVER_HTTP, method: 'GET', url: path + CARD_PATH, summary: 'The card of an agent' }),
      headers: {},
      ...(options.openCards && { open: true as const }),
    }
    return rawRoute(spec, async (call, reply) => sendCard(options, await agencyOf(options, call), call.request, reply))
  })
  const http = HTTP_ROWS.map(({ path, ignoresBody, answer, ...spec }) =>
    rawRoute(
      {
        ...row({ ...OVER_HTTP, ...spec, url: `/a2a/:agency${path}` }),
        ...(ignoresBody && { rawBody: true as const, bodyOptional: true as const }),
      },
      async (call, reply) => {
        if (call.request.body instanceof Readable) call.request.body.resume()
        return answer({ operations, served: await checked(options, call), call, reply })
      },
    ),
  )
  return [
    ...cards,
    rawRoute(rpc, async (call, reply) => {
      const served = await checked(options, call)
      requireBody(call.request)
      return answerRpc(operations, served, call.request, reply)
    }),
    ...http,
  ]
}

const OVER_HTTP = { errorBody: HttpErrorBody, errorHandler: sendHttpError } as const

type Row = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: string
  readonly summary: string
  /** What is sent; read by rules of the protocol's own. */
  readonly query?: z.ZodType
  readonly body?: z.ZodType
  readonly isStream?: true
  readonly takesNotifications?: true
  readonly errorBody: z.ZodType
  readonly errorHandler: ErrorHandler
}

function row({ method, url, summary, query, body, isStream, ...more }: Row): RouteSpec {
  const { takesNotifications, errorBody, errorHandler } = more
  const fastify = { errorHandler }
  const answer = { contentType: 'application/json', json: z.looseObject({}), description: 'An answer of the protocol.' }
  return {
    method,
    url,
    id: `a2a_${method.toLowerCase()}${url.replaceAll(/[^A-Za-z]+/g, '_')}`,
    tag: 'a2a',
    summary,
    ...(query && { ownQuery: query }),
    ...(body && { ownBody: body }),
    success: {
      200: { ...answer, ...(isStream && { otherContentType: 'text/event-stream' }) },
      ...(takesNotifications && { 204: null }),
    },
    errors: [],
    errorBody,
    otherResponses: { '4XX': { description: 'The request cannot be used.', body: errorBody } },
    headers: { 'A2A-Version': 'Required.' },
    fastify,
  }
}

/** Of what is wrong before a request was carried out. Its status is that of HTTP, for who looks at nothing else. */
const answerRpcError = errorGate((error, request) => {
  const refused = toA2aError(error, request)
  const status = error instanceof A2aError ? 200 : refused.status
  return { status, headers: refused.headers, body: rpcError(refused, rpcIdOf(request.body)) }
})

/** @throws A2aError the version is another one. @throws ServiceError */
async function checked(options: A2aOptions, call: Call): Promise<FaceAgency> {
  options.requireOrigin(call.request)
  requireVersion(call.request)
  return agencyOf(options, call)
}

/** The header, or the parameter in its place. None stands for 0.3 (specification 3.6.2); patches do not count. */
function requireVersion({ headers, query }: FastifyRequest): void {
  const given = headers['a2a-version'] ?? (query as Record<string, unknown>)['A2A-Version']
  const version = typeof given === 'string' && given !== '' ? given : '0.3'
  if (version.split('.').slice(0, 2).join('.') === PROTOCOL_VERSION) return
  const message = `A2A version ${version.slice(0, 20)} is not supported. Send the header A2A-Version: ${PROTOCOL_VERSION}.`
  throw new A2aError('VERSION_NOT_SUPPORTED', message)
}

/** @throws ServiceError `route_not_found` there is no such agency that the caller may use. */
async function agencyOf({ host }: A2aOptions, call: Call): Promise<FaceAgency> {
  const name = call.params['agency']
  const served =
    name === undefined ? (await host.agencies(call.request))[0] : await host.agency(call.request, param(call, 'agency'))
  if (!served) throw new ServiceError('route_not_found', { message: 'There is no such agent.' })
  return served
}

function sendCard(
  { version, needsToken, ...options }: A2aOptions,
  served: FaceAgency,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const card = agentCard(served, { baseUrl: baseUrlOf(options, request), version, needsToken })
  const tag = cardTag(card)
  const scope = needsToken ? 'private' : 'public'
  reply.header('cache-control', `${scope}, max-age=${CARD_MAX_AGE_SECONDS}`).header('etag', tag)
  if (request.headers['if-none-match'] === tag) return reply.code(304).send()
  return reply.send(card)
}
