import { expect, test } from 'vitest'
import { SharedState } from './shared-state.ts'

/** An object of 2 ** levels leaves, made of as many objects as there are levels. */
function doubled(levels: number): unknown {
  let value: unknown = { leaf: true }
  for (let level = 0; level < levels; level++) value = { left: value, right: value }
  return value
}

test('a state that shares its parts is measured as it is written: each time that it has them', () => {
  const state = new SharedState()

  state.set(doubled(10))

  expect(JSON.stringify(state.value)).toHaveLength(JSON.stringify(doubled(10)).length)
  expect(() => state.set(doubled(50))).toThrow('The shared state has more than 1048576 characters as JSON.')
})

test('a state that contains itself is nested too deep', () => {
  const state = new SharedState()
  const value: Record<string, unknown> = { whole: doubled(10) }
  value['self'] = [value, value]

  expect(() => state.set(value)).toThrow('The shared state is nested more than 60 deep.')
})
