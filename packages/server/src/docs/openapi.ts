import type { Agency, AgencyContext, FunctionTool } from '@bureau/framework'
import type { z } from 'zod'
import { METADATA_SCHEMA } from './metadata-schema.ts'
import {
  aguiSchemas,
  errorSchemas,
  json,
  operation,
  ref,
  requestSchemas,
  responseSchemas,
  type Schemas,
} from './operations.ts'
import { realtimePaths } from './realtime-paths.ts'
import { SIGN_IN_PATHS } from './sign-in-paths.ts'
import { toolPaths } from './tool-paths.ts'

export type ApiDescription = {
  readonly title: string
  readonly version: string
  readonly serverUrl: string
  readonly agencies: ReadonlyMap<string, Agency>
  readonly tools: readonly FunctionTool<AgencyContext>[]
  /** True: `/get_logs` is there. */
  readonly logs?: boolean
  /** Given when agencies speak AG-UI: the body of their requests. */
  readonly aguiRequest?: z.ZodType | undefined
  /** True: agencies have voice sessions. */
  readonly realtime?: boolean
  /** True: users sign in to tool servers. */
  readonly signIns?: boolean
}

/** The OpenAPI 3.1 document of a server, made from the schemas that check its requests. */
export function openApiDocument(api: ApiDescription): object {
  const { agencies, aguiRequest } = api
  const runs = agencies.size > 0 && !aguiRequest
  const schemas: Schemas = runs ? { ...responseSchemas(), ...requestSchemas() } : errorSchemas()
  if (aguiRequest) Object.assign(schemas, aguiSchemas(aguiRequest))
  if (agencies.size > 0) schemas['AgencyMetadata'] = METADATA_SCHEMA
  const paths: Record<string, object> = {}
  for (const name of agencies.keys()) {
    Object.assign(paths, aguiRequest ? aguiPaths(name) : agencyPaths(name), api.realtime && realtimePaths(name))
  }
  Object.assign(paths, toolPaths(api.tools, schemas), api.logs && LOGS_PATHS, api.signIns && SIGN_IN_PATHS)
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
  return {
    [`/${name}/get_response_stream`]: {
      post: operation(`handler_${name}_get_response_stream_post`, {
        success,
        request: ref('RunAgentInput'),
        tag: name,
      }),
    },
    ...metadataPath(name),
  }
}

function metadataPath(name: string): Record<string, object> {
  const get = operation(`handler_${name}_get_metadata_get`, { success: json(ref('AgencyMetadata')), tag: name })
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
