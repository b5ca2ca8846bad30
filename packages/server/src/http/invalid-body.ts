import { isFields, ServiceError, type ValidationEntry } from '@bureau/protocol'
import { type InputCodes, problemSentence } from '@bureau/runtime'
import { z } from 'zod'
import { MAX_ENTRIES, validationEntries } from './validation-entries.ts'
import { issuesOfLongLists } from './long-lists.ts'

const MAX_TOLD_LENGTH = 16_384

/** A body that does not fit its schema: 422 with one entry per problem. */
export class InvalidBody extends Error {
  override readonly name = 'InvalidBody'
  readonly entries: readonly ValidationEntry[]

  /** Keeps the first hundred entries, or as many as an answer of a few pages has room for; long values are cut. */
  constructor(entries: readonly ValidationEntry[]) {
    let length = 0
    const told = entries
      .slice(0, MAX_ENTRIES)
      .map(shortEntry)
      .filter((entry, index) => (length += JSON.stringify(entry).length) <= MAX_TOLD_LENGTH || index === 0)
    super(told.map((entry) => `${entry.loc.slice(1).join('.') || 'body'}: ${entry.msg}`).join('; '))
    this.entries = told
  }
}

/** @throws InvalidBody */
export function parseBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  if (!isFields(body)) throw notAnObject(body)
  const issues = issuesOfLongLists(schema, body)
  if (issues.length > 0) throw new InvalidBody(validationEntries(issues, body))
  const parsed = schema.safeParse(body)
  if (!parsed.success) throw new InvalidBody(validationEntries(parsed.error.issues.slice(0, MAX_ENTRIES), body))
  return parsed.data
}

/**
 * @throws InvalidBody; ServiceError with the code that `codes` has for the first problem.
 */
export function parseQuery(schema: z.ZodType, query: unknown, codes: InputCodes = {}): unknown {
  const parsed = schema.safeParse(query, { error: problemSentence })
  if (parsed.success) return parsed.data
  const code = codes[String(parsed.error.issues[0]?.path[0])]
  if (code) throw new ServiceError(code)
  throw new InvalidBody(
    parsed.error.issues.map(({ path, message }) => {
      const missing = path[0] !== undefined && !Object.hasOwn(query as object, path[0])
      return {
        type: missing ? 'missing' : 'value_error',
        loc: ['query', ...path.map(String)],
        msg: missing ? 'Field required' : message,
        input: null,
      }
    }),
  )
}

export function notAnObject(body: unknown): InvalidBody {
  const msg = 'Input should be a valid JSON object, sent as application/json'
  return new InvalidBody([{ type: 'model_attributes_type', loc: ['body'], msg, input: body ?? null }])
}

function shortEntry({ loc, msg, input, ctx, ...entry }: ValidationEntry): ValidationEntry {
  return {
    ...entry,
    loc: loc.map((part) => (typeof part === 'string' ? cut(part, 100) : part)),
    msg: cut(msg, 500),
    input: new Excerpt(1_000).of(input),
    ...(ctx && { ctx: new Excerpt(1_000).of(ctx) as NonNullable<typeof ctx> }),
  }
}

/** A value as far as an answer may repeat it: whole when it is small. */
class Excerpt {
  #left: number

  /** @param length Characters of its texts and names, about. */
  constructor(length: number) {
    this.#left = length
  }

  of(value: unknown): unknown {
    if (typeof value === 'string') return this.#text(value)
    this.#left -= 4
    if (typeof value !== 'object' || value === null) return value
    return Array.isArray(value) ? this.#list(value) : this.#object(value as Readonly<Record<string, unknown>>)
  }

  #text(text: string): string {
    const shown = cut(text, Math.max(this.#left, 0))
    this.#left -= shown.length
    return shown
  }

  #list(list: readonly unknown[]): unknown[] {
    const shown: unknown[] = []
    for (const entry of list) {
      shown.push(this.#left > 0 ? this.of(entry) : '…')
      if (this.#left <= 0) break
    }
    return shown
  }

  #object(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
    const shown: [string, unknown][] = []
    for (const name of Object.keys(fields)) {
      if (this.#left <= 0) break
      shown.push([this.#text(name), this.of(fields[name])])
    }
    return Object.fromEntries(shown)
  }
}

const cut = (text: string, length: number): string => (text.length > length ? `${text.slice(0, length)}…` : text)
