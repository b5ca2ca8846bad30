import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { tool } from './tool.ts'

const strictOf = (parameters: z.ZodObject): boolean =>
  (tool({ name: 'x', description: '', parameters, execute: () => '' }) as { strict?: boolean }).strict === true

describe('a tool is strict where providers take its schema for a strict function', () => {
  test.each<[string, z.ZodType]>([
    ['texts and numbers', z.object({ text: z.string(), count: z.number().int().min(1) })],
    ['null', z.string().nullable()],
    ['choices', z.enum(['a', 'b'])],
    ['unions', z.union([z.string(), z.object({ a: z.boolean() })])],
    ['lists of objects', z.array(z.object({ a: z.string() })).max(3)],
    ['known formats', z.object({ id: z.uuid(), at: z.iso.datetime() })],
    ['members named like keywords', z.object({ default: z.string(), type: z.string(), format: z.number() })],
  ])('%s', (_, schema) => {
    expect(strictOf(z.object({ value: schema }))).toBe(true)
  })

  test.each<[string, z.ZodType]>([
    ['optional members', z.string().optional()],
    ['defaults', z.string().default('x')],
    ['anything', z.unknown()],
    [
      'discriminated unions',
      z.discriminatedUnion('k', [z.object({ k: z.literal('a') }), z.object({ k: z.literal('b') })]),
    ],
    ['tuples', z.tuple([z.string(), z.number()])],
    ['open objects', z.looseObject({ a: z.string() })],
    ['maps', z.record(z.string(), z.number())],
    ['lengths of texts', z.string().min(1)],
    ['formats that are not known', z.url()],
    ['patterns that look around', z.string().regex(/a(?=b)/)],
    ['what JSON Schema cannot say', z.coerce.date()],
    ['keywords of the user', z.string().meta({ examples: ['a'] })],
    ['keywords that every object of JavaScript has', z.string().meta({ constructor: 'a' })],
    ['any of this further in', z.array(z.object({ a: z.union([z.null(), z.url()]) }))],
  ])('not with %s', (_, schema) => {
    expect(strictOf(z.object({ value: schema }))).toBe(false)
  })

  test('without parameters', () => {
    expect(strictOf(z.object({}))).toBe(true)
  })
})
