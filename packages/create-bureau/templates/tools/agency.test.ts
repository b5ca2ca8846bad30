import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask } from '@bureau/framework'
import { support } from './agency.ts'

// Without a key the built-in demo model answers: these tests cost nothing.
test('orders are looked up', async () => {
  assert.equal((await ask(support, 'Where is order 7?')).output, 'Order 7 left this morning.')
})

test('words are looked up at the tool server', async () => {
  const { output } = await ask(support, 'Look up the word "agency".')

  assert.equal(output, 'agency: a group of agents with an entry point')
})
