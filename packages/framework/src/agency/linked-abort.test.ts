import { expect, test } from 'vitest'
import { linkedAbort } from './linked-abort.ts'

test('aborts with its parent, for the same reason', () => {
  const parent = new AbortController()
  const { signal } = linkedAbort(parent.signal)
  expect(signal.aborted).toBe(false)

  const reason = new Error('the run was cancelled')
  parent.abort(reason)

  expect(signal.reason).toBe(reason)
})

test('is aborted from the start when its parent is', () => {
  expect(linkedAbort(AbortSignal.abort('gone')).signal.reason).toBe('gone')
})

test('aborts alone, and keeps its own reason when the parent follows', () => {
  const parent = new AbortController()
  const call = linkedAbort(parent.signal)
  call.abort('too late')

  expect(parent.signal.aborted).toBe(false)

  parent.abort('cancelled')

  expect(call.signal.reason).toBe('too late')
})

test('needs no parent', () => {
  const call = linkedAbort(undefined)
  call.abort('too late')

  expect(call.signal.reason).toBe('too late')
})
