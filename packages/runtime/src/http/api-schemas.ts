import { isFields } from '@bureau/protocol'
import { z } from 'zod'
import type { NamedSchema } from './route.ts'

type Json = Record<string, unknown>

export type OpenApiVersion = '3.0.3' | '3.1.0'

/** The schemas of one document: those with a name stand there once and are referred to. */
export class ApiSchemas {
  readonly components: Record<string, object> = {}
  readonly #version: OpenApiVersion

  constructor(version: OpenApiVersion) {
    this.#version = version
  }

  /** A schema as what may be sent; answers may have members that are not described yet. */
  of(schema: z.ZodType): object {
    const known = MADE[this.#version].get(schema) ?? make(schema, this.#version)
    MADE[this.#version].set(schema, known)
    for (const [name, definition] of Object.entries(known.definitions)) this.components[name] ??= definition
    return known.schema
  }

  /** Adds a schema that was not made here, under its name or, where that is taken, one like it. */
  add({ name, jsonSchema }: NamedSchema): object {
    const free = this.#freeName(name)
    this.components[free] = rebased(withoutIdentity(jsonSchema), pointerTo(free)) as object
    return { $ref: pointerTo(free) }
  }

  #freeName(name: string): string {
    return name in this.components ? this.#freeName(`${name}Tool`) : name
  }
}

/** A schema, and those that it refers to by their names. */
type Made = { readonly schema: object; readonly definitions: Readonly<Record<string, object>> }

/** Most routes share their refusals, and all servers of a process their schemas: each is made once. */
const MADE: Readonly<Record<OpenApiVersion, WeakMap<z.ZodType, Made>>> = {
  '3.0.3': new WeakMap(),
  '3.1.0': new WeakMap(),
}

function make(schema: z.ZodType, version: OpenApiVersion): Made {
  const target = version === '3.0.3' ? 'openapi-3.0' : 'draft-2020-12'
  const made = z.toJSONSchema(schema, { target, io: 'input', unrepresentable: 'any' })
  const text = JSON.stringify(made).replaceAll(/"#\/(?:definitions|\$defs)\//g, `"${pointerTo('')}`)
  const plain = (_name: string, value: unknown): unknown => (version === '3.0.3' ? withTypedNull(value) : value)
  const { definitions = {}, $defs = definitions, ...rest } = JSON.parse(text, plain) as Json & Definitions
  const named = Object.entries($defs).map(([name, definition]) => [name, withoutIdentity(definition)] as const)
  return { schema: withoutIdentity(rest), definitions: Object.fromEntries(named) }
}

type Definitions = { definitions?: Record<string, object>; $defs?: Record<string, object> }

const pointerTo = (name: string): string => `#/components/schemas/${name}`

/** A schema has its place in the document; an identity of its own would change what its references mean. */
function withoutIdentity(schema: object): object {
  const { $schema: _, $id: _id, id: _name, ...rest } = schema as Json
  return rest
}

/** References within a schema point to its root, which is now a place inside the document. */
function rebased(node: unknown, root: string): unknown {
  if (Array.isArray(node)) return node.map((each) => rebased(each, root))
  if (typeof node !== 'object' || node === null) return node
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) => {
      if (key === '$ref' && typeof value === 'string') return [key, value.replace(/^#/, root)]
      return [key, rebased(value, root)]
    }),
  )
}

/** In OpenAPI 3.0 `nullable` counts only beside a `type`, and adds nothing to an `enum`: there, null becomes a choice of its own. */
function withTypedNull(value: unknown): unknown {
  if (!isFields(value)) return value
  const { nullable, allOf = [], anyOf = allOf, ...rest } = value as Json
  const { type, enum: choices } = rest
  if (nullable !== true) return value
  if (type !== undefined) return Array.isArray(choices) ? { ...value, enum: [...new Set([...choices, null])] } : value
  return { ...rest, anyOf: [...(anyOf as unknown[]), { type: 'object', nullable: true, enum: [null] }] }
}
