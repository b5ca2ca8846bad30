import type { Agency, AgencyContext, FunctionTool } from '@bureau/framework'
import { errorSchemas, json, operation, ref, requestSchemas, responseSchemas, type Schemas } from './operations.ts'
import { toolPaths } from './tool-paths.ts'

export type ApiDescription = {
  readonly title: string
  readonly version: string
  readonly serverUrl: string
  readonly agencies: ReadonlyMap<string, Agency>
  readonly tools: readonly FunctionTool<AgencyContext>[]
  /** True: `/get_logs` is there. */
  readonly logs?: boolean
  /** True: agencies speak AG-UI. */
  readonly agui?: boolean
  /** Routes of optional features, as `path -> path item`. */
  readonly extraPaths?: Readonly<Record<string, object>>
}

/** The OpenAPI 3.1 document of a server, made from the schemas that check its requests. */
export function openApiDocument(api: ApiDescription): object {
  const runs = api.agencies.size > 0 && !api.agui
  const schemas: Schemas = runs ? { ...responseSchemas(), ...requestSchemas() } : errorSchemas()
  const paths: Record<string, object> = {}
  for (const name of api.agencies.keys()) Object.assign(paths, api.agui ? aguiPaths(name) : agencyPaths(name))
  Object.assign(paths, toolPaths(api.tools, schemas), api.logs && LOGS_PATHS, api.extraPaths)
  return apiDocument({ title: api.title, version: api.version, url: api.serverUrl, paths, schemas })
}

type Document = {
  readonly title: string
  readonly version: string
  readonly description?: string
  readonly url: string
  readonly paths: object
  readonly schemas: Schemas
}

export function apiDocument({ title, version, description, url, paths, schemas }: Document): object {
  return {
    openapi: '3.1.0',
    info: { title, version, ...(description !== undefined && { description }) },
    servers: [{ url }],
    paths,
    components: { schemas, securitySchemes: { HTTPBearer: { type: 'http', scheme: 'bearer' } } },
  }
}

/** Clients find the agencies by the paths that end in `/get_metadata`. */
function agencyPaths(name: string): Record<string, object> {
  const post = (route: string, request: string, success: object): object => ({
    post: operation(`handler_${name}_${route}_post`, { success, request: ref(request), tag: name }),
  })
  return {
    [`/${name}/get_response`]: post('get_response', 'RunRequest', json(ref('RunResponse'))),
    [`/${name}/get_response_stream`]: post(
      'get_response_stream',
      'RunRequest',
      eventStream('Server-sent events: meta, data, messages, end.'),
    ),
    [`/${name}/cancel_response_stream`]: post('cancel_response_stream', 'CancelRequest', json(ref('CancelResponse'))),
    ...metadataPath(name),
  }
}

function aguiPaths(name: string): Record<string, object> {
  const success = eventStream('The events of the AG-UI protocol.')
  const request = {
    type: 'object',
    description: 'RunAgentInput of the AG-UI protocol.',
    required: ['threadId', 'runId'],
  }
  return {
    [`/${name}/get_response_stream`]: {
      post: operation(`handler_${name}_get_response_stream_post`, { success, request, tag: name }),
    },
    ...metadataPath(name),
  }
}

function metadataPath(name: string): Record<string, object> {
  const get = operation(`handler_${name}_get_metadata_get`, { success: json({ type: 'object' }), tag: name })
  return { [`/${name}/get_metadata`]: { get } }
}

function eventStream(description: string): object {
  return { 'text/event-stream': { schema: { type: 'string', description } } }
}

const LOG_ID = { type: 'string', description: 'The x-agency-log-id of earlier requests.' }
const LOGS_REQUEST = { type: 'object', properties: { log_id: LOG_ID }, required: ['log_id'] }
const LOGS = json({ type: 'array', items: { type: 'object' }, description: 'The records; reading deletes them.' })

const LOGS_PATHS = {
  '/get_logs': {
    get: operation('handler_get_logs_get', {
      success: LOGS,
      parameters: [{ name: 'log_id', in: 'query', required: true, schema: LOG_ID }],
      tag: 'logs',
    }),
    post: operation('handler_get_logs_post', { success: LOGS, request: LOGS_REQUEST, tag: 'logs' }),
  },
}
