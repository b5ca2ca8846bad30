import { platformDocument, ROUTES } from '@bureau/platform/testing'
import { Ajv, type ValidateFunction } from 'ajv'
import addFormats from 'ajv-formats'
import type { Answer } from './test-client.ts'

type Schema = Record<string, unknown>
type Media = { schema?: Schema; example?: unknown; examples?: Record<string, { value: unknown }> }
type Operation = {
  operationId: string
  parameters?: { name: string; schema: Schema }[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, { content?: Record<string, Media>; headers?: Record<string, object> }>
}
type Described = { readonly id: string; readonly method: string; readonly path: string; readonly operation: Operation }

type PlatformDescription = {
  readonly operations: readonly Described[]
  /** What a value breaks of a schema of the document. */
  problems(schema: Schema, value: unknown): unknown[]
  /** What an answer has that the document does not say: status, content type, body. */
  undescribed(id: string, answer: Answer): unknown[]
}

/** The OpenAPI document of the platform, read as a client's tools would: by nothing but what it says. */
export function platformDescription(): PlatformDescription {
  const base = { baseUrl: 'https://api.example.com', streamUrl: 'https://api.example.com' }
  const document = JSON.parse(JSON.stringify(platformDocument({ ...base, routes: ROUTES }))) as {
    paths: Record<string, Record<string, Operation>>
    components: { schemas: Record<string, Schema> }
  }
  const ajv = addFormats.default(new Ajv({ strict: false, allErrors: true }))
  ajv.addSchema({ $id: 'doc', components: document.components })
  const compiled = new Map<string, ValidateFunction>()
  const problems = (schema: Schema, value: unknown): unknown[] => {
    const text = JSON.stringify(schema).replaceAll('"#/components/', '"doc#/components/')
    const validate = compiled.get(text) ?? ajv.compile(JSON.parse(text) as Schema)
    compiled.set(text, validate)
    return validate(value) ? [] : (validate.errors ?? [])
  }
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      id: operation.operationId,
      method: method.toUpperCase(),
      path,
      operation,
    })),
  )
  return {
    operations,
    problems,
    undescribed: (id, { status, headers, body }) => {
      const response = operations.find((each) => each.id === id)!.operation.responses[status]
      if (!response) return [`status ${status}`]
      const type = headers.get('content-type')?.split(';')[0] ?? ''
      const media = response.content?.[type]
      if (response.content && !media) return [`content type ${type}`]
      return body === undefined ? [] : problems(media?.schema ?? {}, body)
    },
  }
}

/** Every schema of an operation that has examples, with them. */
export function examplesOf({ requestBody, responses }: Operation): { schema: Schema; examples: unknown[] }[] {
  const all = [requestBody, ...Object.values(responses)].flatMap((part) => Object.values(part?.content ?? {}))
  return all.map(({ schema = {}, example, examples = {} }) => ({
    schema,
    examples: [...(example === undefined ? [] : [example]), ...Object.values(examples).map(({ value }) => value)],
  }))
}
