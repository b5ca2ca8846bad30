import { isFields } from '@bureau/protocol'
import { problemSentence } from '@bureau/runtime'
import type { z } from 'zod'
import { ApiError, invalidParam } from './api-error.ts'

/**
 * A request body, checked.
 *
 * @throws ApiError 400, with the member that is wrong.
 */
export function parseBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  if (!isFields(body)) {
    throw new ApiError('Send a JSON object as application/json.', { status: 400, code: 'invalid_json' })
  }
  return parsePart(schema, body, '')
}

/**
 * The entries of a list, each checked by itself: the first one that is wrong ends it, however long the list is.
 *
 * @throws ApiError 400, with the member that is wrong.
 */
export function parseEach<Schema extends z.ZodType>(
  schema: Schema,
  list: readonly unknown[],
  param: string,
): z.output<Schema>[] {
  return list.map((entry, index) => parsePart(schema, entry, `${param}[${index}]`))
}

function parsePart<Schema extends z.ZodType>(schema: Schema, value: unknown, at: string): z.output<Schema> {
  const parsed = schema.safeParse(value, { error: problemSentence })
  if (parsed.success) return parsed.data
  const issue = deepest(parsed.error.issues[0]!)
  throw invalidParam(pathOf(at, issue.path), issue.message, isMissing(value, issue.path) ? 'missing' : 'invalid_value')
}

type Issue = Pick<z.core.$ZodIssue, 'path' | 'message'>

/** Of a value that fits none of several forms, what is wrong with it as the form that it comes closest to. */
export function deepest(issue: z.core.$ZodIssue): Issue {
  if (issue.code !== 'invalid_union' || issue.errors.length === 0) return issue
  const each = issue.errors.flatMap((issues) => issues.slice(0, 1).map(deepest))
  const closest = each.toSorted((a, b) => b.path.length - a.path.length)[0]!
  if (closest.path.length > 0) return { ...closest, path: [...issue.path, ...closest.path] }
  return { path: issue.path, message: [...new Set(each.map(({ message }) => message))].join('; or: ') }
}

/** `messages[2].content`. Names of members are as long as the caller likes. */
function pathOf(at: string, path: readonly PropertyKey[]): string {
  const joined = path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : `${text}${text === '' ? '' : '.'}${String(key)}`),
    at,
  )
  return joined.slice(0, 200) || 'body'
}

function isMissing(value: unknown, path: readonly PropertyKey[]): boolean {
  const found = path.reduce<unknown>(
    (each, key) =>
      typeof each === 'object' && each !== null ? (each as Record<PropertyKey, unknown>)[key] : undefined,
    value,
  )
  return found === undefined
}
