import fc from 'fast-check'
import { expect, test } from 'vitest'
import { InvalidJson, JsonLimitExceeded } from './invalid-json.ts'
import { checkJsonLimits } from './json-limits.ts'
import { StringEnds } from './string-ends.ts'

const LIMITS = { values: 100, names: 10, differentNames: 5 }

function refusal(text: string, limits = LIMITS): { message: string; path: unknown } {
  try {
    checkJsonLimits(Buffer.from(text), limits)
  } catch (error) {
    if (error instanceof JsonLimitExceeded) return { message: error.message, path: error.path }
    if (error instanceof InvalidJson) return { message: error.message, path: null }
    throw error
  }
  return { message: '', path: null }
}

const list = (entry: string, count: number): string => `[${Array.from({ length: count }, () => entry).join(',')}]`

test.each([
  ['items', `{"a":{"b":${list('1', 200)}}}`, /more than 100 values/, ['a', 'b', 97]],
  ['empty objects', list('{}', 200), /more than 100 values/, [49]],
  ['members', `{"a":{${'"x":1,'.repeat(12)}"x":1}}`, /more than 10 names/, ['a', 'x']],
  ['names', '{"a":{"b":1,"c":1,"d":1,"e":1,"f":1}}', /more than 5 different names/, ['a', 'e']],
  ['a long name', `{"user_context":{"${'x'.repeat(70_000)}":1}}`, /a name of more than 65536 bytes/, ['user_context']],
  ['a long number', `{"a":[1,-${'9'.repeat(1_100)}]}`, /a number of more than 1000 characters/, ['a', 1]],
  [
    'escapes',
    `{"a":["${'\\n'.repeat(2_000_000)}","${'\\n'.repeat(2_000_000)}"]}`,
    /more than 2000000 escapes/,
    ['a', 1],
  ],
  ['white space', `{"a":1${' '.repeat(9_000_000)}}`, /white space/, ['a']],
  ['levels', '['.repeat(65), /nested deeper than 64 levels/, null],
])('too much of one thing is refused with its place: %s', (_name, text, message, path) => {
  expect(refusal(text)).toEqual({ message: expect.stringMatching(message), path })
})

test.each([
  ['a long text', `{"a":"${'x'.repeat(1_000_000)}"}`],
  ['what looks like values inside of texts', `{"a":"${'{},[],\\"a\\":1,'.repeat(1_000)}"}`],
  ['texts that end with backslashes', `["${'\\\\'.repeat(100)}","\\\\\\"","${'x'.repeat(63)}\\\\"]`],
  ['64 levels', '['.repeat(64) + ']'.repeat(64)],
])('passes: %s', (_name, text) => {
  expect(refusal(text).message).toBe('')
})

test('strings end where they end for the parser, whatever is escaped in them and however far apart', () => {
  const stretch = fc.tuple(
    fc.constantFrom('\\\\', '\\"', '\\n', '\\u0022', 'x', '{,'),
    fc.oneof(fc.integer({ min: 0, max: 4 }), fc.integer({ min: 60, max: 70 }), fc.integer({ min: 500, max: 600 })),
  )
  const string = fc
    .array(stretch, { maxLength: 6 })
    .map((all) => all.map(([what, count]) => what.repeat(count)).join(''))
  fc.assert(
    fc.property(fc.array(string), (strings) => {
      const bytes = Buffer.from(`[${strings.map((each) => `"${each}"`).join(',')}]`)
      const ends = new StringEnds(bytes)
      let at = 2
      for (const each of strings) {
        expect(ends.next(at)).toBe(at + each.length)
        at += each.length + 3
      }
      const slashes = strings.join('').matchAll(/\\./g)
      expect(ends.escapes).toBe([...slashes].length)
    }),
  )
})

test.each(['"', '"x', `"${'x'.repeat(1_000)}`, '"\\', `"${'\\"'.repeat(300)}`])(
  'a string that does not end: %s',
  (text) => {
    expect(new StringEnds(Buffer.from(text)).next(1)).toBe(text.length)
  },
)

test('counts are those of what the parser makes', () => {
  const count = (value: unknown): { values: number; names: number } => {
    if (typeof value !== 'object' || value === null) return { values: 0, names: 0 }
    const names = Array.isArray(value) ? 0 : Object.keys(value).length
    const inner = Object.values(value).map(count)
    const entries = Math.max(Object.keys(value).length - 1, 0)
    return {
      values: 1 + entries + inner.reduce((sum, { values }) => sum + values, 0),
      names: names + inner.reduce((sum, each) => sum + each.names, 0),
    }
  }
  fc.assert(
    fc.property(fc.array(fc.jsonValue({ maxDepth: 6 })), (value) => {
      const { values, names } = count(value)
      const text = JSON.stringify(value)
      const passes = (limits: object): boolean =>
        refusal(text, { ...LIMITS, values: 1e6, names: 1e6, differentNames: 1e6, ...limits }).message === ''
      expect(passes({ values, names })).toBe(true)
      if (values > 0) expect(passes({ values: values - 1 })).toBe(false)
      if (names > 0) expect(passes({ names: names - 1 })).toBe(false)
    }),
  )
})
