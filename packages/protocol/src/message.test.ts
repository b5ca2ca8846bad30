import { expect, test } from 'vitest'
import { type Message, withoutMetadata } from './message.ts'

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
