import { ServiceError } from '@bureau/protocol'
import { describe, expect, test } from 'vitest'
import { parseAnyStrictJson, parseStrictJson } from './strict-json.ts'

const parse = (text: string): Record<string, unknown> => parseStrictJson(Buffer.from(text))
const codeOf = (text: string | Buffer): string => {
  try {
    parseStrictJson(Buffer.from(text))
    return 'accepted'
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe('parseStrictJson', () => {
  test('reads what JSON.parse reads', () => {
    const value = { a: [1, { b: 'x"\\,{' }], c: null, d: { a: true, 'e,"': 'ü' } }
    expect(parse(JSON.stringify(value, null, 1))).toEqual(value)
  })

  test.each([
    ['not JSON', '{"a":'],
    ['a list', '[1]'],
    ['a text', '"a"'],
    ['nothing', ''],
    ['a name twice', '{"a":1,"b":{"a":2},"a":3}'],
    ['a name twice, once escaped', '{"a":1,"\\u0061":2}'],
    ['a name twice, deep inside', '{"x":[{"y":{"a":1,"a":1}}]}'],
    ['a prototype name', '{"__proto__":{"polluted":1}}'],
    ['an escaped prototype name', '{"\\u005f_proto__":1}'],
    ['a prototype name, deep inside', '{"metadata":{"constructor":{"prototype":1}}}'],
    ['nesting beyond 64 levels', `{"a":${'['.repeat(64)}${']'.repeat(64)}}`],
    ['200,000 levels that are never closed', '{"a":'.repeat(200_000)],
  ])('refuses %s', (_name, text) => {
    expect(codeOf(text)).toBe('invalid_json')
  })

  test('64 levels are not too deep', () => {
    expect(codeOf(`{"a":${'['.repeat(63)}${']'.repeat(63)}}`)).toBe('accepted')
  })

  test('refuses bytes that are not UTF-8', () => {
    expect(codeOf(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]))).toBe('invalid_json')
  })

  test.each([
    ['{"a":"\\u0000"}', 'a: text'],
    ['{"x":"é","a":[1,"\\ud800"]}', 'a/1: text'],
    ['{"user_context":{"a":"\\uD800x"}}', 'user_context/a: text'],
    ['{"a":{"\\udc00":1}}', 'a: text'],
    ['{"\\udc00":1}', 'text'],
  ])('refuses text that no database stores, and says where: %s', (body, where) => {
    const message = `The request is not valid. ${where} must not hold U+0000 or unpaired surrogates`
    expect(() => parse(body)).toThrow(expect.objectContaining({ code: 'invalid_request', message }))
  })

  test('a surrogate pair is a character', () => {
    expect(parse('{"a":"\\ud83d\\ude00"}')).toEqual({ a: '😀' })
  })

  test('names inside user_context are data, on objects without a prototype', () => {
    const body = parse('{"user_context":{"__proto__":{"polluted":1},"constructor":2}}')
    const context = body['user_context'] as Record<string, unknown>
    expect(Object.getPrototypeOf(context)).toBeNull()
    expect(Object.keys(context)).toEqual(['__proto__', 'constructor'])
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })
})

describe('parseAnyStrictJson', () => {
  test.each(['5', '"a"', 'null', 'true', '[1]', '{"a":1}'])('takes %s', (text) => {
    expect(parseAnyStrictJson(Buffer.from(text))).toEqual(JSON.parse(text))
  })

  test.each(['[{"a":1,"a":2}]', '[{"__proto__":1}]', '"\\u0000"', '5 5'])('refuses %s, as in an object', (text) => {
    expect(() => parseAnyStrictJson(Buffer.from(text))).toThrow(ServiceError)
  })
})
