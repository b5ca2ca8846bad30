import { expect, test } from 'vitest'
import { z } from 'zod'
import { readOptions } from './options.ts'

const Checks = z.strictObject({
  appTokenEnv: z.string().optional(),
  includeUsage: z.boolean().optional(),
  drainMs: z.int().min(0).default(30_000),
  modelSettings: z.strictObject({ maxTokens: z.int().optional() }).optional(),
  tracing: z.union([z.boolean(), z.strictObject({ endpoint: z.string().optional() })]).optional(),
  anything: z.unknown().optional(),
})

function problem(options: unknown): string {
  try {
    readOptions('serve', Checks, options)
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`
  }
  return 'none'
}

test('good options come back with the defaults', () => {
  expect(readOptions('serve', Checks, { appTokenEnv: 'X' })).toEqual({ appTokenEnv: 'X', drainMs: 30_000 })
})

test.each([
  ['in another spelling', { app_token_env: 'X' }, 'there is no option "app_token_env". Did you mean "appTokenEnv"?'],
  ['with a slip', { apTokenEnv: 'X' }, 'there is no option "apTokenEnv". Did you mean "appTokenEnv"?'],
  [
    'in the wrong object',
    { modelSettings: { includeUsage: true } },
    'there is no option "modelSettings.includeUsage". Did you mean "includeUsage"?',
  ],
  ['of a deeper object', { maxTokens: 1 }, 'there is no option "maxTokens". Did you mean "modelSettings.maxTokens"?'],
  [
    'of one form of several',
    { tracing: { endPoint: '' } },
    'there is no option "tracing.endPoint". Did you mean "tracing.endpoint"?',
  ],
  ['unlike any', { modelSettings: { zzz: 1 } }, 'there is no option "modelSettings.zzz". Options: maxTokens.'],
])('an unknown name %s is refused, with the one that is meant', (_, options, message) => {
  expect(problem(options)).toBe(`ConfigError: serve: ${message}`)
})

test('every problem is told at once, under its name', () => {
  expect(problem({ drainMs: -1, tracing: { endpoint: 5 }, nonsense: 1 }).split('\n')).toEqual([
    expect.stringContaining('ConfigError: serve: drainMs: '),
    expect.stringContaining('serve: tracing.endpoint: '),
    expect.stringContaining('serve: there is no option "nonsense". Options: appTokenEnv, '),
  ])
})

test('a value of none of several forms is told what they are', () => {
  expect(problem({ tracing: 5 })).toBe('ConfigError: serve: tracing: must be a boolean or an object, not a number')
  expect(() => readOptions('serve', z.object({ names: z.union([z.string(), z.array(z.string())]) }), {})).toThrow(
    'serve: names: is missing; it must be a string or an array',
  )
})

test.each([
  ['a literal', z.literal(true), false, 'must be true'],
  ['a whole number', z.int(), 1.5, 'must be a whole number'],
  ['a positive number', z.number().positive(), 0, 'must be >0'],
  ['a number up to a limit', z.number().max(5), 6, 'must be <=5'],
])('%s is asked for in plain words', (_, type, value, words) => {
  expect(() => readOptions('serve', z.object({ it: type }), { it: value })).toThrow(new RegExp(`^serve: it: ${words}$`))
})

test.each([
  [new Date(0), 'a Date'],
  [[], 'an Array'],
  ['text', 'a String'],
  [undefined, 'undefined'],
])('%s is not an object of options', (options, called) => {
  expect(problem(options)).toBe(
    `ConfigError: serve: expected an object of options ({ appTokenEnv, includeUsage, drainMs, modelSettings, … }), but got ${called}.`,
  )
})
