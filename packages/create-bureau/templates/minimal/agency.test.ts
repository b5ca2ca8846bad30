import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask } from '@bureau/framework'
import { support } from './agency.ts'

test('the agency answers', async () => {
  // Without a key the built-in demo model answers: this test costs nothing.
  const { status, output } = await ask(support, 'Hello')

  assert.equal(status, 'completed')
  assert.match(String(output), /Hello/)
})
