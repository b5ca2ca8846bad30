import type { Agency, FunctionTool } from '@bureau/framework'
import type { z } from 'zod'
import type { SignIns } from '../oauth/open-sign-ins.ts'
import { METADATA_SCHEMA } from './metadata-schema.ts'
import {
  aguiSchemas,
  errorSchemas,
  json,
  type Operation,
  operation,
  ref,
  requestSchemas,
  responseSchemas,
  type Schemas,
  USER_CHECK,
} from './operations.ts'
import { realtimePaths } from './realtime-paths.ts'
import { SIGN_IN_PATHS } from './sign-in-paths.ts'
import { toolPaths } from './tool-paths.ts'

export type ApiDescription = {
  readonly title: string
  readonly version: string
  readonly serverUrl: string
  readonly agencies: ReadonlyMap<string, Agency>
  readonly tools: readonly FunctionTool[]
  /** True: `/get_logs` is there. */
  readonly logs?: boolean
  /** Given when agencies speak AG-UI: the body of their requests. */
  readonly aguiRequest?: z.ZodType | undefined
  /** True: agencies have voice sessions. */
  readonly realtime?: boolean
  /** Given when users sign in to tool servers. */
  readonly signIns?: Pick<SignIns, 'agencies'> | undefined
}

/** The OpenAPI 3.1 document of a server, made from the schemas that check its requests. */
export function openApiDocument(api: ApiDescription): object {
  const { agencies, aguiRequest } = api
  const runs = agencies.size > 0 && !aguiRequest
  const schemas: Schemas = runs ? { ...responseSchemas(), ...requestSchemas() } : errorSchemas()
  if (aguiRequest) Object.assign(schemas, aguiSchemas(aguiRequest))
  if (agencies.size > 0) schemas['AgencyMetadata'] = METADATA_SCHEMA
  const paths: Record<string, object> = {}
  for (const [name, agency] of agencies) {
    const needsUser = api.signIns?.agencies.has(agency) ?? false
    const about = { name, needsUser }
    Object.assign(paths, aguiRequest ? aguiPaths(about) : agencyPaths(about), api.realtime && realtimePaths(name))
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

type AgencyRoutes = {
  readonly name: string
  /** True: requests must come from a user. */
  readonly needsUser: boolean
}

/** Clients find the agencies by the paths that end in `/get_metadata`. */
function agencyPaths(agency: AgencyRoutes): Record<string, object> {
  const needsStreaming = agency.needsUser ? (['oauth_needs_streaming'] as const) : []
  return {
    ...postPath(agency, 'get_response', {
      request: ref('RunRequest'),
      success: json({ oneOf: [ref('RunResponse'), ref('FileUrlsError')] }),
      refusals: ['run_failed', 'overloaded', ...needsStreaming],
    }),
    ...postPath(agency, 'get_response_stream', {
      request: ref('RunRequest'),
      success: eventStream('Server-sent events: meta, data, messages, end.'),
      refusals: ['overloaded'],
    }),
    ...postPath(agency, 'cancel_response_stream', {
      request: ref('CancelRequest'),
      success: json(ref('CancelResponse')),
      refusals: ['run_not_found'],
    }),
    ...metadataPath(agency.name),
  }
}

function aguiPaths(agency: AgencyRoutes): Record<string, object> {
  return {
    ...postPath(agency, 'get_response_stream', {
      request: ref('RunAgentInput'),
      success: eventStream('The events of the AG-UI protocol.'),
      refusals: ['overloaded'],
    }),
    ...metadataPath(agency.name),
  }
}

function postPath(
  { name, needsUser }: AgencyRoutes,
  route: string,
  { refusals = [], ...about }: Omit<Operation, 'tag'>,
): Record<string, object> {
  const ofUsers = needsUser ? { refusals: [...refusals, ...USER_CHECK.refusals], responses: USER_CHECK.responses } : {}
  const post = operation(`handler_${name}_${route}_post`, { refusals, ...about, ...ofUsers, tag: name })
  return { [`/${name}/${route}`]: { post } }
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
      refusals: ['log_id_required', 'log_not_found'],
      tag: 'logs',
    }),
    post: operation('handler_get_logs_post', {
      success: LOGS,
      request: LOGS_REQUEST,
      refusals: ['log_id_required', 'log_not_found'],
      tag: 'logs',
    }),
  },
}
