/**
 * The same JSON value with U+FFFD in place of what PostgreSQL cannot hold: U+0000 and unpaired surrogates.
 *
 * For what models and tools produce; a request that contains them is refused instead.
 */
export function storable<Value>(value: Value): Value {
  if (typeof value === 'string') return storableText(value) as Value
  if (Array.isArray(value)) return value.map(storable) as Value
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [storableText(name), storable(member)]),
  ) as Value
}

const storableText = (text: string): string => text.toWellFormed().replaceAll('\u0000', '\uFFFD')
