import { type ErrorCode, PlatformError, ServiceError } from '@bureau/protocol'
import { apiDocument, type ApiStyle, headersOf } from '@bureau/runtime'
import { errorBody } from '../http/render-error.ts'
import type { Route } from '../http/route.ts'

type ApiDescription = {
  readonly baseUrl: string
  /** Where streams are served; the same as `baseUrl` unless they have servers of their own. */
  readonly streamUrl: string
  readonly routes: readonly Route[]
}

const INFO = {
  title: 'Bureau platform API',
  // Of the interface, not of the program.
  version: '1.0.0',
  description: 'Runs agents on behalf of integration owners: streamed completions, chats, members and allowances.',
}

/** The OpenAPI 3.0.3 document of the platform, made from the schemas and tables that serve its requests. */
export function platformDocument({ baseUrl, streamUrl, routes }: ApiDescription): object {
  const servers = ({ id }: Route): object[] | undefined => (STREAMS.has(id) ? [{ url: streamUrl }] : undefined)
  return apiDocument(routes, { ...STYLE, servers }, { info: INFO, url: baseUrl })
}

const STREAMS: ReadonlySet<string> = new Set(['getCompletionV2', 'followRun', 'followRunText'])

const STYLE: ApiStyle<Route> = {
  version: '3.0.3',
  security: ['apiKey', { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' }],
  isGuarded: ({ scope }) => scope !== null,
  commonErrors,
  errorBody: () => PlatformError,
  more: (route, status, codes) => ({
    examples: examplesOf(route, codes),
    ...(route.admits && status !== 422 && { headers: admissionHeaders(status) }),
  }),
  description: ({ description, scope, consumer }) =>
    [
      description,
      scope === null ? undefined : `Scope: \`${scope}\`.`,
      consumer && `Scope of consumer tokens: \`${consumer}\`.`,
    ]
      .filter(Boolean)
      .join(' '),
  headers: ({ idempotent }) => (idempotent ? IDEMPOTENCY_KEY : {}),
}

const IDEMPOTENCY_KEY = {
  'Idempotency-Key': 'The first answer to this API key is kept for 24 hours and given again, without its secrets.',
}

const EVERYWHERE: readonly ErrorCode[] = [
  'invalid_api_key',
  'invalid_consumer_token',
  'origin_not_allowed',
  'insufficient_scope',
  'rate_limited',
  'internal_error',
  'overloaded',
  'server_draining',
  'database_unavailable',
]

function commonErrors({ body, query, scope, idempotent }: Route): ErrorCode[] {
  return [
    ...(body || query ? (['invalid_request'] as const) : []),
    ...(body ? (['invalid_json', 'invalid_content_type', 'body_too_large', 'body_too_slow'] as const) : []),
    ...(idempotent ? (['idempotency_key_reused', 'idempotency_in_progress'] as const) : []),
    ...(scope === null ? [] : EVERYWHERE),
  ]
}

function examplesOf({ surface = 'rest' }: Route, codes: readonly ErrorCode[]): Record<string, unknown> {
  const examples = codes.map((code) => {
    const value = errorBody(surface, new ServiceError(code), 'req_01kaexample00000000000000')
    return [code, { value }]
  })
  return Object.fromEntries(examples) as Record<string, unknown>
}

function admissionHeaders(status: number): Record<string, unknown> {
  return {
    'X-Agent-Run-Admitted': ADMITTED,
    ...(status === 409 &&
      headersOf({
        'X-Agent-Active-Run-Id': 'The run to wait for, or to cancel.',
        'X-Agent-Active-Run-Events': 'Where that run can be followed.',
      })),
  }
}

const ADMITTED = {
  description: '`false`: this attempt reserved no run. Absent: nobody knows; ask for the chat status.',
  schema: { type: 'string', enum: ['false'] },
}
