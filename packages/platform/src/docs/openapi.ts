import { type ErrorCode, ERRORS, PlatformError, ServiceError } from '@bureau/protocol'
import { z } from 'zod'
import { errorBody } from '../http/render-error.ts'
import type { Route, SuccessBody } from '../http/route.ts'
import { schemaOf, type Schemas } from './schema-of.ts'

type ApiDescription = {
  readonly baseUrl: string
  /** Where streams are served; the same as `baseUrl` unless they have servers of their own. */
  readonly streamUrl: string
  readonly routes: readonly Route[]
}

type Json = Record<string, unknown>

/** The version of the interface, not of the program. */
const API_VERSION = '1.0.0'

/** The OpenAPI 3.0.3 document of the platform, made from the schemas and tables that serve its requests. */
export function platformDocument({ baseUrl, streamUrl, routes }: ApiDescription): Json {
  const schemas: Schemas = {}
  const paths: Record<string, Json> = {}
  for (const route of routes) {
    const path = route.url.replaceAll(/:(\w+)/g, '{$1}')
    const servers = isStream(route) ? { servers: [{ url: streamUrl }] } : {}
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: { ...operation(route, schemas), ...servers } }
  }
  return {
    openapi: '3.0.3',
    info: {
      title: 'Bureau platform API',
      version: API_VERSION,
      description: 'Runs agents on behalf of integration owners: streamed completions, chats, members and allowances.',
    },
    servers: [{ url: baseUrl }],
    tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas,
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
    },
  }
}

function isStream({ id }: Route): boolean {
  return id === 'getCompletionV2' || id === 'followRun' || id === 'followRunText'
}

function operation(route: Route, schemas: Schemas): Json {
  const { id, tag, summary, description, scope, body } = route
  return {
    operationId: id,
    tags: [tag],
    summary,
    description: [description, scope === null ? undefined : `Scope: \`${scope}\`.`].filter(Boolean).join(' '),
    security: scope === null ? [] : [{ apiKey: [] }],
    parameters: [...pathParameters(route), ...queryParameters(route, schemas), ...headerParameters(route)],
    ...(body && { requestBody: requestBody(route, body, schemas) }),
    ...(route.rawBody && { requestBody: RAW_BODY }),
    responses: { ...successes(route, schemas), ...failures(route, schemas) },
  }
}

function requestBody({ bodyOptional, examples }: Route, body: z.ZodType, schemas: Schemas): Json {
  const example = examples?.request === undefined ? {} : { example: examples.request }
  return { required: !bodyOptional, content: { 'application/json': { schema: schemaOf(body, schemas), ...example } } }
}

/** Any type is taken; the parts of an upload name the second one. */
const RAW_BODY = {
  required: true,
  content: Object.fromEntries(
    ['application/octet-stream', 'application/offset+octet-stream'].map((type) => [
      type,
      { schema: { type: 'string', format: 'binary' } },
    ]),
  ),
}

function pathParameters({ url }: Route): Json[] {
  return [...url.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
}

function queryParameters({ query }: Route, schemas: Schemas): Json[] {
  if (!query) return []
  const { properties = {}, required = [] } = schemaOf(query, schemas) as {
    properties?: Record<string, Json>
    required?: string[]
  }
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    ...(description !== undefined && { description }),
    schema,
  }))
}

function headerParameters({ headers = {}, idempotent }: Route): Json[] {
  const all = {
    ...headers,
    ...(idempotent && {
      'Idempotency-Key': 'The first answer to this API key is kept for 24 hours and given again, without its secrets.',
    }),
  }
  return Object.entries(all).map(([name, description]) => ({
    name,
    in: 'header',
    required: description === 'Required.',
    description,
    schema: { type: 'string' },
  }))
}

function successes(route: Route, schemas: Schemas): Json {
  const answers = Object.entries(route.success).map(([status, body]) => [
    status,
    { description: descriptionOf(status, body), ...contentOf(route, body, schemas) },
  ])
  return Object.fromEntries(answers) as Json
}

function descriptionOf(status: string, body: SuccessBody): string {
  if (body && 'contentType' in body) return body.description
  return DESCRIPTIONS[status] ?? 'Success'
}

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  201: 'Created',
  202: 'Not done yet',
  204: 'Done; there is no body.',
  302: 'Go on at `Location`.',
  503: 'Not ready',
}

function contentOf({ examples }: Route, body: SuccessBody, schemas: Schemas): Json {
  if (body === null) return {}
  if ('contentType' in body) {
    const text = { schema: { type: 'string' }, ...(body.example !== undefined && { example: body.example }) }
    const other = body.otherContentType === undefined ? {} : { [body.otherContentType]: { schema: { type: 'string' } } }
    return { headers: headersOf(body.headers), content: { [body.contentType]: text, ...other } }
  }
  const example = examples?.response === undefined ? {} : { example: examples.response }
  return { content: { 'application/json': { schema: schemaOf(body, schemas), ...example } } }
}

function headersOf(headers: Readonly<Record<string, string>> = {}): Json {
  const described = Object.entries(headers).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ])
  return Object.fromEntries(described) as Json
}

const EVERYWHERE: readonly ErrorCode[] = [
  'invalid_api_key',
  'insufficient_scope',
  'rate_limited',
  'internal_error',
  'overloaded',
  'server_draining',
  'database_unavailable',
]

function failures(route: Route, schemas: Schemas): Json {
  const asks = route.body || route.query ? (['invalid_request'] as const) : []
  const sends = route.body ? (['invalid_json', 'invalid_content_type', 'body_too_large', 'body_too_slow'] as const) : []
  const common = route.scope === null ? [] : EVERYWHERE
  const repeats = route.idempotent ? (['idempotency_key_reused', 'idempotency_in_progress'] as const) : []
  const codes = new Set<ErrorCode>([...route.errors, ...asks, ...sends, ...repeats, ...common])
  const byStatus = Map.groupBy(codes, (code) => ERRORS[code].status)
  const schema = schemaOf(route.errorBody ?? PlatformError, schemas)
  const answers = [...byStatus].map(([status, group]) => [
    String(status),
    {
      description: group.map((code) => `\`${code}\`: ${ERRORS[code].message}`).join(' '),
      ...(route.admits && status !== 422 && { headers: admissionHeaders(status) }),
      content: { 'application/json': { schema, examples: examplesOf(route, group) } },
    },
  ])
  return Object.fromEntries(answers) as Json
}

function examplesOf(route: Route, codes: readonly ErrorCode[]): Json {
  const examples = codes.map((code) => {
    const value = errorBody(route.surface ?? 'rest', new ServiceError(code), 'req_01kaexample00000000000000')
    return [code, { value }]
  })
  return Object.fromEntries(examples) as Json
}

function admissionHeaders(status: number): Json {
  return {
    'X-Agent-Run-Admitted': ADMITTED,
    ...(status === 409 && headersOf({ 'X-Agent-Active-Run-Id': 'The run to wait for, or to cancel.' })),
  }
}

const ADMITTED = {
  description: '`false`: this attempt reserved no run. Absent: nobody knows; ask for the chat status.',
  schema: { type: 'string', enum: ['false'] },
}
