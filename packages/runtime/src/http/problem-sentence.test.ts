import { expect, test } from 'vitest'
import { z } from 'zod'
import { problemSentence } from './problem-sentence.ts'

/** The sentence about the first problem, after the path to the value that has it. */
function saidOf(schema: z.ZodType, value: unknown): string | undefined {
  const [issue] = schema.safeParse(value, { error: problemSentence }).error?.issues ?? []
  return issue && [...issue.path, issue.message].join(': ')
}

const kinds = z.discriminatedUnion('type', [
  z.object({ type: z.literal('file') }),
  z.object({ type: z.literal('image') }),
])

test.each<[z.ZodType, unknown, string]>([
  [z.string(), undefined, 'is missing'],
  [z.enum(['day', 'model']), undefined, 'is missing; it is one of "day", "model"'],
  [z.enum(['day', 'model']), 'week', 'must be one of "day", "model"'],
  [z.literal('tool'), 'user', 'must be "tool"'],
  [z.string(), [], 'must be a string, not a list'],
  [z.string().min(1), [], 'must be a string, not a list'],
  [z.record(z.string(), z.string()), null, 'must be an object, not null'],
  [z.int(), 1.5, 'must be a whole number'],
  [z.int().min(1), 0, 'must be at least 1'],
  [z.number().gt(0), 0, 'must be more than 0'],
  [z.int().max(100), 101, 'must be at most 100'],
  [z.string().min(1), '', 'must not be empty'],
  [z.string().max(3), 'four', 'must have at most 3 characters'],
  [z.array(z.string()).min(1), [], 'must not be empty'],
  [z.array(z.string()).max(1), ['a', 'b'], 'must have at most 1 item'],
  [z.iso.datetime(), 'tomorrow', 'must be a date and time with a time zone, such as 2030-01-31T12:00:00Z'],
  [z.strictObject({ a: z.string().optional() }), { b: 1 }, '"b" does not exist here'],
  [
    z.record(z.string().max(3), z.string()),
    { four: 'x' },
    'four: "four" is not a valid key: it must have at most 3 characters',
  ],
  [z.string().min(8, 'is too short to be safe'), 'short', 'is too short to be safe'],
])('%#: a value that the schema refuses is told in one plain sentence', (schema, input, said) => {
  expect(saidOf(schema, input)).toBe(said)
})

test('of members by their type, the sentence names the types that there are', () => {
  expect(saidOf(z.array(kinds), [{ type: 'video' }])).toBe('0: type: must be one of "file", "image"')
})

test('a list of allowed values is never cut off, names of the caller are', () => {
  const values = Array.from({ length: 40 }, (_, index) => `a_long_name_of_a_scope_${index}`)

  expect(saidOf(z.enum(values), 'x')).toContain('"a_long_name_of_a_scope_39"')
  expect(saidOf(z.strictObject({}), { ['x'.repeat(5_000)]: 1 })).toMatch(/^.{200,300}$/)
})
