import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask } from '@bureau/framework'
import { support } from './agency.ts'

test('orders are looked up', async () => {
  // Without a key the built-in demo model answers: this test costs nothing.
  assert.equal((await ask(support, 'Where is order 7?')).output, 'Order 7 left this morning.')
})
