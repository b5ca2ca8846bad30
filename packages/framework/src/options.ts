import { distance } from 'fastest-levenshtein'
import { z } from 'zod'
import { ConfigError, isFields } from '@bureau/protocol'

/** A check for each member of an options type: the compiler complains when one is missing. */
export type OptionChecks<Options> = { readonly [Name in keyof Options]-?: z.ZodType }

/** Milliseconds above 0, as far as Node's timers go. */
export const Milliseconds = z.int().positive().max(2_147_483_647)

/** A check for what TypeScript describes better: any function. */
export const AnyFunction = z.custom<(...args: never[]) => unknown>((value) => typeof value === 'function', {
  error: 'must be a function',
})

/**
 * A check for what a schema cannot say. Its problem goes on after the place, `tools.0 is 7, not a tool`, also with the place of a
 * member, `.until is a date`, and is listed with all others; undefined: there is none.
 */
export const checkedBy = (problemOf: (value: unknown) => string | undefined) =>
  z.unknown().superRefine((value, context) => {
    const message = problemOf(value)
    if (message !== undefined) context.addIssue({ code: 'custom', message, params: GOES_ON })
  })

const GOES_ON = {}

/** An option that is given as undefined, as by `process.env.MODEL`, is not given. */
export function present<Options extends object>(options: Options): Present<Options> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Present<Options>
}

type Present<Options> = { [Name in keyof Options]: Exclude<Options[Name], undefined> }

/**
 * Checks what a developer has written as options, and fills in the defaults of the schema. A name that is not known is a
 * mistake too: an option that is ignored may be the one that keeps strangers out.
 *
 * @param where - Whose options they are, for the message: `runServer`, `Agent "Support"`.
 * @throws ConfigError with every problem, each under the name of its option, and the name that was probably meant.
 */
export function readOptions<Schema extends z.ZodObject>(
  where: string,
  schema: Schema,
  options: unknown,
): z.output<Schema> {
  if (!isPlainObject(options)) {
    const names = Object.keys(schema.shape).slice(0, 4).join(', ')
    throw new ConfigError(`${where}: expected an object of options ({ ${names}, … }), but got ${described(options)}.`)
  }
  const parsed = schema.safeParse(options)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.flatMap((issue) => problemsOf(issue, schema))
  throw new ConfigError(problems.map((problem) => `${where}: ${problem}`).join('\n'))
}

/** An instance of a class is something else that was put in the place of the options. */
function isPlainObject(value: unknown): boolean {
  if (!isFields(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function described(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  return withArticle(value.constructor.name)
}

function problemsOf(issue: z.core.$ZodIssue, schema: z.ZodObject): string[] {
  const path = issue.path.map(String)
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((name) => `there is no option "${[...path, name].join('.')}".${meant(name, path, schema)}`)
  }
  if (issue.code === 'custom' && issue.params === GOES_ON)
    return [`${path.join('.')}${/^[.[]/.test(issue.message) ? '' : ' '}${issue.message}.`]
  // Of several allowed forms, report the problems of the form that the options resemble.
  const begun =
    issue.code === 'invalid_union' &&
    issue.errors.find(([first]) => (first?.path.length ?? 0) > 0 || first?.code === 'unrecognized_keys')
  if (begun) return begun.flatMap((inner) => problemsOf({ ...inner, path: [...issue.path, ...inner.path] }, schema))
  const isPlain = issue.code !== 'invalid_union' || issue.message !== 'Invalid input'
  return [`${path.join('.')}: ${isPlain ? plainly(issue.message) : noneOf(issue.errors)}`]
}

/** What several forms ask for, in the words of the first one, where a value is like none of them. */
function noneOf(forms: readonly (readonly z.core.$ZodIssue[])[]): string {
  const [first = '', ...others] = forms.map(([issue]) => plainly(issue?.message ?? ''))
  const wanted = others.map((sentence) => sentence.replace(/^.*must be |, not .*$/g, ''))
  return first.replace(/(must be [^,]*)/, (_, own: string) => [own, ...new Set(wanted)].join(' or '))
}

/** What zod says about a value of another type or size, in words of the other messages. */
function plainly(message: string): string {
  const [, exact] = /^(?:Invalid input: expected|Too (?:small|big): expected \w+ to be) (\S+)$/.exec(message) ?? []
  if (exact !== undefined) return `must be ${exact}`
  const [, expected, received] = /^Invalid input: expected (\w+), received (\w+)$/.exec(message) ?? []
  if (expected === undefined || received === undefined) return message
  if (expected === 'int') return 'must be a whole number'
  const wanted = `must be ${withArticle(expected === 'record' ? 'object' : expected)}`
  if (received === 'undefined') return `is missing; it ${wanted}`
  return `${wanted}, not ${received === 'null' ? 'null' : withArticle(received)}`
}

const withArticle = (noun: string): string => `${/^[AEIOU]/i.test(noun) ? 'an' : 'a'} ${noun}`

/** The option that a wrong name is nearest to: one of the same object first, then one of any. */
function meant(name: string, path: readonly string[], schema: z.ZodObject): string {
  const all = namesIn(schema)
  const siblings = all.filter(({ parent }) => parent === path.join('.'))
  const found = nearest(name, siblings) ?? nearest(name, all)
  if (found) return ` Did you mean "${found}"?`
  return ` Options: ${siblings.map((sibling) => sibling.name).join(', ')}.`
}

type OptionName = { readonly name: string; readonly parent: string }

function nearest(name: string, options: readonly OptionName[]): string | undefined {
  const near = nearestName(
    name,
    options.map((option) => option.name),
  )
  const parent = options.find((option) => option.name === near)?.parent
  return near && [parent, near].filter((part) => part).join('.')
}

/** The name that a misspelt one probably stands for; undefined when it is like none. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const plain = (text: string): string => text.replaceAll(/[_-]/g, '').toLowerCase()
  return known
    .map((each) => ({ each, edits: distance(plain(name), plain(each)) }))
    .filter(({ each, edits }) => edits <= each.length / 4)
    .toSorted((a, b) => a.edits - b.edits)[0]?.each
}

function namesIn(schema: z.core.$ZodType, parent = ''): OptionName[] {
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((option) => namesIn(option, parent))
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault) {
    return namesIn(schema.unwrap(), parent)
  }
  if (!(schema instanceof z.ZodObject)) return []
  return Object.entries(schema.shape).flatMap(([name, member]) => [
    { name, parent },
    ...namesIn(member as z.core.$ZodType, parent === '' ? name : `${parent}.${name}`),
  ])
}
