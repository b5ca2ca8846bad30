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

type Operation = {
  readonly success: object
  readonly request?: object
  readonly tag: string
  readonly description?: string
  readonly parameters?: readonly object[]
  /** False: the request may have no body. */
  readonly bodyRequired?: boolean
}

export function operation(id: string, about: Operation): object {
  const { success, request, tag, description, parameters, bodyRequired = true } = about
  return {
    operationId: id,
    summary: titleCased(id),
    ...(description !== undefined && description !== '' && { description }),
    tags: [tag],
    security: [{ HTTPBearer: [] }],
    ...(parameters && { parameters }),
    ...(request && { requestBody: { required: bodyRequired, content: json(request) } }),
    responses: {
      200: { description: 'Successful Response', content: success },
      422: { description: 'Validation Error', content: json(ref('HTTPValidationError')) },
    },
  }
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
