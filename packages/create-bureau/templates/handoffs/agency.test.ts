import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask } from '@bureau/framework'
import { support } from './agency.ts'

test('the agency answers', async () => {
  // Without a key the built-in demo model answers: this test costs nothing.
  const { status, new_messages: messages } = await ask(support, 'Hello')

  assert.equal(status, 'completed')
  assert.equal(messages.at(-1)?.agent, 'Reception')
})

test('everybody who may be asked is there', () => {
  assert.deepEqual([...support.agents.keys()].sort(), ['Billing', 'Reception', 'Research'])
})
