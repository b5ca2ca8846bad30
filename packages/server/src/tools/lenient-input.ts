type Json = Readonly<Record<string, unknown>>

const NUMBER = /^\s*[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?\s*$/i
const BOOLEAN = /^\s*(?:true|false)\s*$/i

/**
 * The input of a tool with numbers and booleans where it has them as text: `"3"` becomes 3 and `"true"` becomes true, as in
 * the Python system, because clients send what people have typed. A text stays a text wherever the schema takes texts, and
 * within objects that a union has several kinds of.
 *
 * @param schema - The JSON Schema of the tool's parameters.
 */
export function lenientInput(input: Json, schema: Json): Record<string, unknown> {
  return read(input, kindsOf(schema, schema), schema) as Record<string, unknown>
}

function read(value: unknown, kinds: readonly Json[], root: Json): unknown {
  if (typeof value === 'string') return readText(value, kinds)
  if (typeof value !== 'object' || value === null) return value
  const type = Array.isArray(value) ? 'array' : 'object'
  const [rules, ...others] = kinds.filter((kind) => [kind['type']].flat().includes(type))
  if (!rules || others.length > 0) return value
  if (Array.isArray(value)) {
    const entryKinds = kindsOf(rules['items'], root)
    const entries = value.map((entry) => read(entry, entryKinds, root))
    return entries.some((entry, place) => entry !== value[place]) ? entries : value
  }
  const { properties = {}, additionalProperties } = rules as { properties?: Json; additionalProperties?: unknown }
  const otherKinds = kindsOf(additionalProperties, root)
  let isChanged = false
  const members = Object.entries(value).map(([name, member]) => {
    const given = read(member, Object.hasOwn(properties, name) ? kindsOf(properties[name], root) : otherKinds, root)
    isChanged ||= given !== member
    return [name, given] as const
  })
  // Objects of many kinds are expensive to make, and most have nothing to be read.
  return isChanged ? Object.fromEntries(members) : value
}

/** Of a schema that does not say what it takes, or takes certain values only, nothing is read. */
function readText(text: string, kinds: readonly Json[]): unknown {
  const isPlain = ({ type, enum: values, const: value }: Json): boolean =>
    type !== undefined && values === undefined && value === undefined
  const types = kinds.every(isPlain) ? kinds.flatMap(({ type }) => type) : []
  if (types.includes('string')) return text
  if ((types.includes('number') || types.includes('integer')) && NUMBER.test(text)) return Number(text)
  return types.includes('boolean') && BOOLEAN.test(text) ? text.trim().toLowerCase() === 'true' : text
}

/** The members of a union, wherever they are written down; a schema that is not a union is the only one. */
function kindsOf(schema: unknown, root: Json, seen = new Set<unknown>()): Json[] {
  if (typeof schema !== 'object' || schema === null || seen.has(schema)) return []
  seen.add(schema)
  const { $ref, anyOf, oneOf } = schema as { $ref?: unknown; anyOf?: unknown[]; oneOf?: unknown[] }
  const members = typeof $ref === 'string' ? [at($ref, root)] : (anyOf ?? oneOf)
  return members ? members.flatMap((member) => kindsOf(member, root, seen)) : [schema as Json]
}

/** What a reference within a schema points to, by its JSON pointer (RFC 6901). */
function at(reference: string, root: Json): unknown {
  const steps = reference.split('/').slice(1)
  return steps.reduce<unknown>((node, step) => {
    return (node as Json | undefined)?.[step.replaceAll('~1', '/').replaceAll('~0', '~')]
  }, root)
}
