import { isDeepStrictEqual } from 'node:util'

export type Fields = Readonly<Record<string, unknown>>

/** An item or content part of the agents SDK in the making. */
export type Draft = Fields & { readonly type?: string; readonly providerData?: Fields }

/**
 * Adds to an SDK object, as its `providerData`, whatever of the wire object its own fields cannot say.
 *
 * A member of `providerData` wins over the field of the same wire name on the way back, and `undefined` there means
 * that the wire object does not have it, although the SDK demands a value.
 */
export function withRemainder(draft: Draft, wire: Fields, toWire: (draft: Draft) => Fields): Draft {
  const said = toWire(draft)
  const remainder: [string, unknown][] = []
  for (const [key, value] of Object.entries(wire)) {
    if (!isDeepStrictEqual(said[key], value)) remainder.push([key, value])
  }
  for (const key of Object.keys(said)) if (!Object.hasOwn(wire, key)) remainder.push([key, undefined])
  return remainder.length === 0 ? draft : { ...draft, providerData: Object.fromEntries(remainder) }
}

/** The wire object made of what an SDK object's fields say and of its `providerData`, without undefined members. */
export function merged(said: Fields, providerData?: unknown): Fields {
  const wire = { ...said, ...(isFields(providerData) ? inSnakeCase(providerData) : undefined) }
  for (const key of Object.keys(wire)) if (wire[key] === undefined) delete wire[key]
  return wire
}

/** The SDK writes the members of `providerData` to the wire in snake case. */
function inSnakeCase(fields: Fields): Fields {
  if (!Object.keys(fields).some((key) => CAPITAL.test(key))) return fields
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [snakeCase(key), value]))
}

export function snakeCase(key: string): string {
  return key.replaceAll(CAPITALS, (capital) => `_${capital.toLowerCase()}`)
}

const CAPITAL = /[A-Z]/
const CAPITALS = /[A-Z]/g

/** Equal but for members that are null or absent. */
export function sameMeaning(a: unknown, b: unknown): boolean {
  return isDeepStrictEqual(withoutNulls(a), withoutNulls(b))
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (!isFields(value)) return value
  const entries = Object.entries(value).filter(([, member]) => member !== null && member !== undefined)
  return Object.fromEntries(entries.map(([key, member]) => [key, withoutNulls(member)]))
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
