import { type Fields, fieldsOf } from '@bureau/protocol'

/** A copy without what is null or absent. Objects from which members are deleted are slow to write as JSON. */
export function withoutNulls(members: Fields): Record<string, unknown> {
  const given: Record<string, unknown> = {}
  for (const name of Object.keys(members)) if (members[name] != null) given[name] = members[name]
  return given
}

/** Those of the members that are text, as all headers are. */
export function textMembers(members: unknown): Record<string, string> {
  const entries = Object.entries(fieldsOf(members))
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'))
}

/** The same value with all its names in another spelling. */
export function respelled(value: unknown, respell: (name: string) => string): unknown {
  if (Array.isArray(value)) return value.map((member) => respelled(member, respell))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [respell(name), respelled(member, respell)]))
}
