import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { type CursorBinding, decodeCursor, encodeCursor } from './cursor.ts'

describe('cursor', () => {
  const key = randomBytes(32)
  const binding: CursorBinding = { ownerId: 'own_a', route: 'GET /v1/chats', filters: { consumerId: 'u-1' } }
  const position = ['2026-11-20T22:10:11.120Z', 'chat_1'] as const
  const cursor = encodeCursor(key, binding, position)

  test('continues the list it was made for', () => {
    expect(decodeCursor(key, binding, cursor)).toEqual(position)
    expect(cursor).toMatch(/^[\w-]+$/)
  })

  test.each([
    { change: 'another owner', other: { ownerId: 'own_b' } },
    { change: 'another route', other: { route: 'GET /v1/runs' } },
    { change: 'another filter', other: { filters: { consumerId: 'u-2' } } },
  ])('is refused for $change', ({ other }) => {
    expect(() => decodeCursor(key, { ...binding, ...other }, cursor)).toThrow(
      expect.objectContaining({ code: 'invalid_cursor' }),
    )
  })

  test.each(['', 'x', 'WzIs', `${cursor}A`, cursor.slice(1), `${cursor}=`, ` ${cursor}`, 'ü'.repeat(40)])(
    'is refused when altered: %s',
    (altered) => {
      expect(() => decodeCursor(key, binding, altered)).toThrow(expect.objectContaining({ code: 'invalid_cursor' }))
    },
  )
})
