import {
  CancelRequestBody,
  CancelResponse,
  ClientConfig,
  type ErrorCode,
  ERRORS,
  FileUrlsError,
  Message,
  RunRequest,
  RunResponse,
  Usage,
  ValidationEntry,
  ValidationErrorBody,
} from '@bureau/protocol'
import { z } from 'zod'

export type Schemas = Record<string, object>

/** The bodies of the agency routes, by their names in the description. Each is written down once and referred to. */
export function requestSchemas(): Schemas {
  return schemasOf({ RunRequest, ClientConfig, Message, CancelRequest: CancelRequestBody }, 'input')
}

export function responseSchemas(): Schemas {
  return { ...schemasOf({ RunResponse, FileUrlsError, CancelResponse, Message, Usage }, 'output'), ...errorSchemas() }
}

/** `RunAgentInput` is the protocol's run input with fields of ours. */
export function aguiSchemas(RunAgentInput: z.ZodType): Schemas {
  return schemasOf({ RunAgentInput, ClientConfig, Message }, 'input')
}

export function errorSchemas(): Schemas {
  return schemasOf({ HTTPValidationError: ValidationErrorBody, ValidationError: ValidationEntry }, 'output')
}

function schemasOf(types: Readonly<Record<string, z.ZodType>>, io: 'input' | 'output'): Schemas {
  const registry = z.registry<{ id: string }>()
  for (const [id, type] of Object.entries(types)) registry.add(type, { id })
  const { schemas } = z.toJSONSchema(registry, { io, unrepresentable: 'any', uri: pointerTo })
  return Object.fromEntries(Object.entries(schemas).map(([id, schema]) => [id, withoutIdentity(schema)]))
}

/** A component has its place in the document; an identity of its own would change what its references mean. */
export function withoutIdentity(schema: object): object {
  const { $schema: _, $id: _id, id: _name, ...rest } = schema as Record<string, unknown>
  return rest
}

type Endpoint = {
  readonly tag: string
  readonly description?: string
  readonly parameters?: readonly object[]
  readonly request?: object
  /** False: the request may have no body. */
  readonly bodyRequired?: boolean
  /** By status. They replace what is said of refusals with the same status. */
  readonly responses: Readonly<Record<string, object>>
  /** What the route itself refuses; what all routes of its kind refuse need not be named. */
  readonly refusals?: readonly ErrorCode[]
  /** True: the route needs no token. */
  readonly open?: boolean
}

export function endpoint(id: string, about: Endpoint): object {
  const { tag, description, parameters, request, bodyRequired = true, responses, refusals = [], open = false } = about
  const codes = [...refusals, ...(open ? [] : OF_TOKENS), ...(request ? OF_BODIES : []), ...OF_ALL]
  return {
    operationId: id,
    summary: titleCased(id),
    ...(description !== undefined && description !== '' && { description }),
    tags: [tag],
    security: open ? [] : [{ HTTPBearer: [] }],
    ...(parameters && { parameters }),
    ...(request && { requestBody: { required: bodyRequired, content: json(request) } }),
    responses: { ...refusalsOf(codes), ...(request && { 422: invalidRequest() }), ...responses },
  }
}

const OF_TOKENS: readonly ErrorCode[] = ['not_authenticated', 'unauthorized', 'rate_limited']
const OF_BODIES: readonly ErrorCode[] = ['invalid_content_type', 'body_too_large', 'body_too_slow']
const OF_ALL: readonly ErrorCode[] = ['internal_error', 'server_draining']

/** Refusals by status, each with the sentences of its codes. */
function refusalsOf(codes: readonly ErrorCode[]): Record<string, object> {
  const byStatus = Map.groupBy(new Set(codes), (code) => ERRORS[code].status)
  return Object.fromEntries(
    [...byStatus].map(([status, group]) => {
      return [status, refusal(group.map((code) => `\`${code}\`: ${ERRORS[code].message}`).join(' '))]
    }),
  )
}

export type Operation = Omit<Endpoint, 'responses'> & {
  readonly success: object
  readonly responses?: Endpoint['responses']
}

/** An endpoint that answers with status 200. */
export function operation(id: string, { success, responses, ...about }: Operation): object {
  return endpoint(id, {
    ...about,
    responses: { 200: { description: 'Successful Response', content: success }, ...responses },
  })
}

/** Of routes that ask `oauthUserId` who sends the request. */
export const USER_CHECK = {
  refusals: ['user_not_resolved'],
  responses: { '4XX': refusal("What the server's own check of its users refuses.") },
} as const

export function invalidRequest(): object {
  return { description: 'Validation Error', content: json(ref('HTTPValidationError')) }
}

/** Of refusals that are no validation errors. `detail` says the same as `error`; some clients read that. */
export function refusal(description: string): object {
  const text = { type: 'string' }
  const schema = { type: 'object', properties: { detail: text, error: text }, required: ['error'] }
  return { description, content: json(schema) }
}

function titleCased(id: string): string {
  return id
    .replace(/^handler_|_(?:post|get)$/g, '')
    .replace(/(?:^|_)(\w)/g, (_, letter: string) => ` ${letter.toUpperCase()}`)
    .trim()
}

export function json(schema: object): object {
  return { 'application/json': { schema } }
}

export function ref(name: string): object {
  return { $ref: pointerTo(name) }
}

export function pointerTo(name: string): string {
  return `#/components/schemas/${name}`
}
