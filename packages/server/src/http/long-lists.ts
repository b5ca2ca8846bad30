import { z } from 'zod'

type Issue = z.core.$ZodIssue
type Fields = Readonly<Record<string, unknown>>

/** Longer lists and maps are checked in pieces of this many entries, up to the first piece with something wrong. */
const PIECE = 100

/**
 * What is wrong with the entries of long lists and maps in a value; nothing when all are as the schema wants them.
 *
 * A schema's own check goes on after the first wrong entry and makes an object for each: millions of them, from a body of
 * some megabytes, would take all memory there is. This looks at such lists beforehand and gives up early.
 */
export function issuesOfLongLists(schema: unknown, value: unknown): Issue[] {
  if (typeof value !== 'object' || value === null) return []
  const kind = chosen(unwrapped(schema), value)
  if (!holdsLists(kind)) return []
  if (kind instanceof z.ZodArray) return Array.isArray(value) ? issuesOfArray(kind, value) : []
  if (Array.isArray(value)) return []
  if (kind instanceof z.ZodRecord) return issuesOfMap(kind.valueType, Object.entries(value))
  if (!(kind instanceof z.ZodObject)) return []
  const fields = value as Fields
  const members = Object.keys(kind.shape).filter((name) => typeof fields[name] === 'object' && fields[name] !== null)
  return members.flatMap((name) => within(name, issuesOfLongLists(kind.shape[name], fields[name])))
}

/** A list that is longer than it may be is not looked into. */
function issuesOfArray({ element, def }: z.ZodArray, list: readonly unknown[]): Issue[] {
  const checks = (def.checks ?? []).map((check) => check._zod.def as z.core.$ZodCheckMaxLengthDef)
  const { maximum = Infinity } = checks.find(({ check }) => check === 'max_length') ?? {}
  if (list.length <= maximum) return issuesOfList(element, list)
  const message = `there may be at most ${maximum} entries, and there are ${list.length}`
  return [{ code: 'too_big', origin: 'array', maximum, inclusive: true, path: [], message, input: list }]
}

function issuesOfMap(element: unknown, entries: readonly (readonly [string, unknown])[]): Issue[] {
  const values = entries.map(([, value]) => value)
  return renumbered(issuesOfList(element, values), (index) => entries[index]![0])
}

function issuesOfList(element: unknown, list: readonly unknown[]): Issue[] {
  const pieces = z.array(element as z.ZodType)
  for (let start = 0; start < list.length; start += PIECE) {
    const piece = list.slice(start, start + PIECE)
    const found = holdsLists(element)
      ? piece.flatMap((entry, index) => within(index, issuesOfLongLists(element, entry)))
      : []
    if (found.length === 0 && list.length > PIECE) found.push(...(pieces.safeParse(piece).error?.issues ?? []))
    if (found.length === 0) continue
    return renumbered(found, (index) => start + index)
  }
  return []
}

function renumbered(issues: readonly Issue[], keyOf: (index: number) => PropertyKey): Issue[] {
  return issues.map((issue) => ({ ...issue, path: [keyOf(Number(issue.path[0])), ...issue.path.slice(1)] }))
}

const known = new WeakMap<object, boolean>()

/** Whether a value of this kind can have a list in it that is checked. */
function holdsLists(schema: unknown): boolean {
  const kind = unwrapped(schema)
  if (typeof kind !== 'object' || kind === null) return false
  const before = known.get(kind)
  if (before !== undefined) return before
  // A schema that holds itself is asked about while it is looked at; its lists are found by then, or further on.
  known.set(kind, true)
  const holds =
    kind instanceof z.ZodArray ||
    kind instanceof z.ZodRecord ||
    (kind instanceof z.ZodObject && Object.values(kind.shape).some(holdsLists)) ||
    (kind instanceof z.ZodUnion && kind.options.some(holdsLists))
  known.set(kind, holds)
  return holds
}

/** Of a union the member that is meant: a list or an object as the value is, told apart by what tells them apart. */
function chosen(kind: unknown, value: object): unknown {
  if (!(kind instanceof z.ZodUnion)) return kind
  const options = kind.options.map(unwrapped)
  if (!(kind instanceof z.ZodDiscriminatedUnion)) {
    return options.find((option) => option instanceof z.ZodArray === Array.isArray(value))
  }
  const { discriminator } = kind.def
  return options.find(
    (option) =>
      option instanceof z.ZodObject &&
      z.safeParse(option.shape[discriminator], (value as Fields)[discriminator]).success,
  )
}

function unwrapped(schema: unknown): unknown {
  const isWrapper = schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault
  return isWrapper ? unwrapped(schema.unwrap()) : schema
}

function within(key: PropertyKey, issues: readonly Issue[]): Issue[] {
  return issues.map((issue) => ({ ...issue, path: [key, ...issue.path] }))
}
