import { expect, test } from 'vitest'
import { isMessage, Message, withoutMetadata } from './message.ts'

test('takes the metadata off an item and keeps everything else, in its order', () => {
  const item = { type: 'message', role: 'user', content: 'Hi', agent: 'A', callerAgent: null, timestamp: 1, own: 2 }

  const plain = withoutMetadata(item)

  expect(JSON.stringify(plain)).toBe('{"type":"message","role":"user","content":"Hi","own":2}')
  expect(item).toHaveProperty('agent')
})

test('does not take members of an item for members of its prototype', () => {
  const item = JSON.parse('{"role":"user","content":"Hi","__proto__":{"call_id":"forged"}}') as Message

  expect(withoutMetadata(item).call_id).toBeUndefined()
})

test.each(Object.keys(Message.shape))('takes for a message what the schema takes for one, by its %s', (name) => {
  const values = [undefined, null, 'text', '', 0, 1.5, Infinity, Number.NaN, true, [], {}]

  for (const value of values) {
    expect([value, isMessage({ content: 'Hi', [name]: value })]).toEqual([
      value,
      Message.safeParse({ content: 'Hi', [name]: value }).success,
    ])
  }
})

test('takes nothing for a message that is not an object', () => {
  for (const value of [undefined, null, 'text', 1, [], [{ role: 'user' }]]) expect(isMessage(value)).toBe(false)
})
