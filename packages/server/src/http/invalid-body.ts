import type { ValidationEntry } from '@bureau/protocol'
import { z } from 'zod'
import { validationEntries } from '../agencies/validation-entries.ts'
import { issuesOfLongLists } from './long-lists.ts'

/** Nobody reads more, and each entry repeats what was sent. */
const MAX_ENTRIES = 100

/** A body that does not fit its schema: 422 with one entry per problem. */
export class InvalidBody extends Error {
  override readonly name = 'InvalidBody'
  readonly entries: readonly ValidationEntry[]

  /** The first hundred entries are told. */
  constructor(entries: readonly ValidationEntry[]) {
    const told = entries.slice(0, MAX_ENTRIES)
    super(told.map((entry) => `${entry.loc.slice(1).join('.') || 'body'}: ${entry.msg}`).join('; '))
    this.entries = told
  }
}

/** @throws InvalidBody */
export function parseBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw notAnObject(body)
  const issues = issuesOfLongLists(schema, body)
  if (issues.length > 0) throw new InvalidBody(validationEntries(issues, body))
  const parsed = schema.safeParse(body)
  if (!parsed.success) throw new InvalidBody(validationEntries(parsed.error.issues.slice(0, MAX_ENTRIES), body))
  return parsed.data
}

export function notAnObject(body: unknown): InvalidBody {
  const msg = 'Input should be a valid JSON object, sent as application/json'
  return new InvalidBody([{ type: 'model_attributes_type', loc: ['body'], msg, input: body ?? null }])
}
