import {
  RunRequest,
  RunResponse,
  CancelRequestBody,
  CancelResponse,
  ClientConfig,
  ValidationEntry,
  ValidationErrorBody,
  Message,
  Usage,
} from '@bureau/protocol'
import { z } from 'zod'

export type Schemas = Record<string, object>

/** The bodies of the agency routes, by their names in the description. Each is written down once and referred to. */
export function requestSchemas(): Schemas {
  return schemasOf({ RunRequest, ClientConfig, Message, CancelRequest: CancelRequestBody }, 'input')
}

export function responseSchemas(): Schemas {
  return { ...schemasOf({ RunResponse, CancelResponse, Message, Usage }, 'output'), ...errorSchemas() }
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
  /** By status. */
  readonly responses: Readonly<Record<string, object>>
  /** True: the route needs no token. */
  readonly open?: boolean
}

export function endpoint(id: string, about: Endpoint): object {
  const { tag, description, parameters, request, bodyRequired = true, responses, open = false } = about
  return {
    operationId: id,
    summary: titleCased(id),
    ...(description !== undefined && description !== '' && { description }),
    tags: [tag],
    security: open ? [] : [{ HTTPBearer: [] }],
    ...(parameters && { parameters }),
    ...(request && { requestBody: { required: bodyRequired, content: json(request) } }),
    responses,
  }
}

type Operation = Omit<Endpoint, 'responses'> & { readonly success: object }

/** An endpoint that checks its input and then answers. */
export function operation(id: string, { success, ...about }: Operation): object {
  return endpoint(id, {
    ...about,
    responses: { 200: { description: 'Successful Response', content: success }, 422: invalidRequest() },
  })
}

export function invalidRequest(): object {
  return { description: 'Validation Error', content: json(ref('HTTPValidationError')) }
}

/** Of refusals that are no validation errors. */
export function refusal(description: string): object {
  const text = { type: 'string' }
  const schema = { type: 'object', properties: { detail: text, error: text }, required: ['detail', 'error'] }
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
