import type { z } from 'zod'

/**
 * What is wrong with a part of a request, to be read behind the name of that part: "must be a string". Nothing of it is what
 * the caller sent, but for the names of members that cannot be there, which are shortened.
 *
 * For zod's option `error`: messages that a schema has itself come before these. Undefined: zod's own words.
 */
export function problemSentence(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return wrongType(issue)
    case 'invalid_value':
      return wrongValue(issue)
    case 'invalid_union':
      return Array.isArray(issue.options) ? `must be one of ${allowed(issue.options)}` : noneOf(issue.errors)
    case 'too_small':
      return tooSmall(issue)
    case 'too_big':
      return tooBig(issue)
    case 'invalid_format':
      return FORMATS[issue.format]
    case 'unrecognized_keys':
      return `${namesOf(issue.keys)} ${issue.keys.length === 1 ? 'does' : 'do'} not exist here`
    case 'invalid_key':
      return `${namesOf([String(issue.input)])} is not a valid key: it ${joined(issue.issues)}`
    default:
      return undefined
  }
}

/** What each of several forms says of a value, unless what is wrong lies deeper in it. */
function noneOf(forms: readonly (readonly z.core.$ZodIssue[])[]): string | undefined {
  const sentences = forms.flatMap(([first]) => (first?.path.length === 0 ? first.message : []))
  return sentences.length > 0 && sentences.length === forms.length ? [...new Set(sentences)].join(', or ') : undefined
}

type Issue<Code extends z.core.$ZodIssueCode> = Extract<z.core.$ZodRawIssue, { readonly code: Code }>

function wrongType({ expected, input }: Issue<'invalid_type'>): string {
  if (input === undefined) return 'is missing'
  if (expected === 'int' && typeof input === 'number') return 'must be a whole number'
  return `must be ${nameOf(expected)}, not ${nameOf(typeOf(input))}`
}

function wrongValue({ values, input }: Issue<'invalid_value'>): string {
  const amount = values.length === 1 ? '' : 'one of '
  return `${input === undefined ? 'is missing; it is' : 'must be'} ${amount}${allowed(values)}`
}

function tooSmall({ origin, minimum, inclusive, exact }: Issue<'too_small'>): string {
  const unit = UNITS[origin]
  if (unit === undefined) return inclusive === false ? `must be more than ${minimum}` : `must be at least ${minimum}`
  if (exact) return `must have exactly ${count(minimum, unit)}`
  return minimum === 1 ? 'must not be empty' : `must have at least ${count(minimum, unit)}`
}

function tooBig({ origin, maximum, inclusive, exact }: Issue<'too_big'>): string {
  const unit = UNITS[origin]
  if (unit === undefined) return inclusive === false ? `must be less than ${maximum}` : `must be at most ${maximum}`
  return `must have ${exact ? 'exactly' : 'at most'} ${count(maximum, unit)}`
}

const count = (amount: number | bigint, unit: string): string => `${amount} ${unit}${amount === 1 ? '' : 's'}`

/** What a size counts; a size of anything else is its value. */
const UNITS: Readonly<Record<string, string>> = { string: 'character', array: 'item', set: 'item', map: 'member' }

const NAMES: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'a boolean',
  array: 'a list',
  object: 'an object',
  record: 'an object',
}

const nameOf = (type: string): string => NAMES[type] ?? type

function typeOf(input: unknown): string {
  if (input === null) return 'null'
  return Array.isArray(input) ? 'array' : typeof input
}

const FORMATS: Readonly<Record<string, string>> = {
  datetime: 'must be a date and time with a time zone, such as 2030-01-31T12:00:00Z',
  date: 'must be a date, such as 2030-01-31',
  url: 'must be a URL, such as https://example.com/path',
  email: 'must be an email address',
  uuid: 'must be a UUID',
}

/** Written once for each list of a schema: a request may be wrong in a hundred thousand places. */
function allowed(values: readonly unknown[]): string {
  const known = ALLOWED.get(values)
  if (known !== undefined) return known
  const list = listOf(values)
  ALLOWED.set(values, list)
  return list
}
const ALLOWED = new WeakMap<readonly unknown[], string>()

const listOf = (values: readonly unknown[]): string => values.map((value) => JSON.stringify(value)).join(', ')

const namesOf = (names: readonly string[]): string => listOf(names.slice(0, 5).map(shortened))

const joined = (issues: readonly z.core.$ZodIssue[]): string => issues.map(({ message }) => message).join(', and ')

/** Names of the caller never appear at length. */
export const shortened = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}…` : text)
