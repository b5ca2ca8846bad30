import { type ErrorCode, ERRORS, Refusal, ValidationErrorBody } from '@bureau/protocol'
import { apiDocument, type ApiInfo, type ApiStyle, type RouteSpec } from '@bureau/runtime'

type Row = RouteSpec & { readonly open?: true }

type About = {
  readonly info: ApiInfo
  readonly url?: string
  /** What callers are refused with before their request is looked at. Default: that of a server with a token. */
  readonly ofCallers?: readonly ErrorCode[]
}

/** The OpenAPI 3.1 document of a server, made from the rows that serve its requests. */
export function openApiDocument(routes: readonly Row[], { ofCallers = OF_TOKENS, ...about }: About): object {
  return apiDocument(routes, styleOf(ofCallers), about)
}

const OF_TOKENS: readonly ErrorCode[] = ['not_authenticated', 'unauthorized', 'rate_limited']
const OF_BODIES: readonly ErrorCode[] = ['invalid_content_type', 'body_too_large', 'body_too_slow']
const OF_ALL: readonly ErrorCode[] = ['internal_error', 'server_draining']

/** What a server without a token refuses: pages of strangers. Whoever sends a token all the same is answered. */
export const OF_STRANGERS: readonly ErrorCode[] = [...OF_TOKENS, 'host_not_allowed', 'origin_not_allowed']

const styleOf = (ofCallers: readonly ErrorCode[]): ApiStyle<Row> => ({
  version: '3.1.0',
  security: ['HTTPBearer', { type: 'http', scheme: 'bearer' }],
  isGuarded: ({ open }) => !open,
  commonErrors: ({ open, query, codes, body, ownBody }) => [
    ...(open ? [] : ofCallers),
    ...(body || ownBody ? OF_BODIES : []),
    ...(body || ownBody || (query && !codes) ? (['invalid_request'] as const) : []),
    ...OF_ALL,
  ],
  // The protocols with a shape of their own for errors say 400, as they have it.
  statusOf: (code, { errorBody }) => (code === 'invalid_request' && !errorBody ? 422 : ERRORS[code].status),
  errorBody: (_route, status) => (status === 422 ? ValidationErrorBody : Refusal),
  schemas: [ValidationErrorBody],
})
