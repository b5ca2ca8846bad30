import { expect, test } from 'vitest'
import { deltaCharacters, estimateTokens } from './estimate-tokens.ts'

test('a very long prompt is estimated by a part of it', () => {
  const part = 'The quick brown fox jumps over the lazy dog. '.repeat(100)
  const message = (text: string): unknown => [{ role: 'user', content: [{ type: 'input_text', text }] }]
  const ofPart = estimateTokens(message(part))

  const ofAll = estimateTokens(message(part.repeat(5_000)))

  expect(ofPart).toBeGreaterThan(800)
  expect(ofPart).toBeLessThan(1_400)
  expect(ofAll / ofPart).toBeCloseTo(5_000, -2)
})

test('pictures count as pictures, and ids and what is encrypted do not count', () => {
  const picture = `data:image/png;base64,${'A'.repeat(1_000_000)}`
  const names = estimateTokens(['content', 'image_url'])
  expect(estimateTokens([{ content: [{ type: 'input_image', image_url: picture }] }])).toBe(1_000 + names)
  expect(estimateTokens([{ id: 'rs_1', type: 'reasoning', encrypted_content: 'A'.repeat(1_000) }])).toBe(0)
  expect(estimateTokens(undefined)).toBe(0)
})

test.each([
  ['behind white space', `${' '.repeat(33_000)}${'several words in a row '.repeat(9_000)}`],
  ['behind an address of data', `data:,${'several words in a row '.repeat(9_000)}`],
  ['between white space', `${' '.repeat(100_000)}${'several words in a row '.repeat(9_000)}${' '.repeat(100_000)}`],
])('words %s count', (_, text) => {
  expect(estimateTokens([{ role: 'user', content: text }])).toBeGreaterThan(40_000)
})

test.each([
  ['white space', ' '.repeat(200_000), 25_000],
  ['writing that has tokens of its own', 'བོད་ཡིག'.repeat(10_000), 25_000],
])('%s counts', (_, text, tokens) => {
  expect(estimateTokens([text])).toBeGreaterThanOrEqual(tokens)
})

test('the names of members count, and a description under any name', () => {
  const names = Array.from({ length: 1_000 }, (_, n) => [`shipping_address_of_customer_${n}`, { type: 'string' }])
  expect(estimateTokens({ properties: Object.fromEntries(names) as unknown })).toBeGreaterThan(5_000)
  expect(estimateTokens({ properties: { id: { description: 'word '.repeat(1_000) } } })).toBeGreaterThan(900)
})

test('the characters of a delta, as JSON writes them', () => {
  for (const delta of ['', 'word', 'a "quoted"\\ line\n']) {
    expect(deltaCharacters(JSON.stringify({ type: 'x.delta', delta, obfuscation: 'abc' }))).toBe(delta.length)
  }
  expect(deltaCharacters('{"type":"x.delta","delta":{}}')).toBe(0)
})
