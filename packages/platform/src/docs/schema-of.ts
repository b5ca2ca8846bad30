import { z } from 'zod'

/** The named schemas of a document. */
export type Schemas = Record<string, object>

type Json = Record<string, unknown>

/** The JSON schema of OpenAPI 3.0. Named schemas go to `schemas`, the components, and are referred to. */
export function schemaOf(schema: z.ZodType, schemas: Schemas): object {
  const made = z.toJSONSchema(schema, { target: 'openapi-3.0', io: 'input', unrepresentable: 'any' })
  const text = JSON.stringify(made).replaceAll('"#/definitions/', '"#/components/schemas/')
  const {
    definitions = {},
    $schema: _,
    ...rest
  } = JSON.parse(text, (_name, value: unknown) => withTypedNull(value)) as Json & { definitions?: Schemas }
  Object.assign(schemas, definitions)
  return rest
}

/** `nullable` counts only beside a `type`: where there is none, null becomes a choice of its own. */
function withTypedNull(value: unknown): unknown {
  if (!isObject(value) || value['nullable'] !== true || value['type'] !== undefined) return value
  const { nullable: _, allOf = [], anyOf = allOf, ...rest } = value
  return { ...rest, anyOf: [...(anyOf as unknown[]), { type: 'object', nullable: true, enum: [null] }] }
}

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)
