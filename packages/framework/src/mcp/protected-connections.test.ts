import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { MCPServerOAuth } from '../agency/oauth-server.ts'
import type { ProtectedConnection } from './protected-connection.ts'
import { type ConnectionKey, ProtectedConnections } from './protected-connections.ts'
import type { TokenStore } from '../tokens/token-store.ts'

const IDLE_MS = 300_000
const server = new MCPServerOAuth({ name: 'notes', url: 'https://notes.example/mcp' })
const store = {} as TokenStore
const ada: ConnectionKey = { userId: 'ada', server, store }

/** A connection that only counts how often it was closed. */
function opened(): { connection: ProtectedConnection; closed: () => number } {
  let closed = 0
  const connection = { close: async () => void closed++ }
  return { connection: connection as unknown as ProtectedConnection, closed: () => closed }
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('runs of one user share a connection; it is closed when nobody has used it for a while', async () => {
  const pool = new ProtectedConnections()
  const { connection, closed } = opened()
  const first = pool.lease(ada, () => connection)
  const second = pool.lease(ada, () => opened().connection)
  expect(second.connection).toBe(connection)

  first.release()
  first.release()
  await vi.advanceTimersByTimeAsync(2 * IDLE_MS)
  expect(closed()).toBe(0)
  second.release()
  await vi.advanceTimersByTimeAsync(IDLE_MS - 1)
  expect(closed()).toBe(0)
  await vi.advanceTimersByTimeAsync(1)
  expect(closed()).toBe(1)
  expect(pool.lease(ada, () => opened().connection).connection).not.toBe(connection)
})

test('a connection that is used again in time stays open', async () => {
  const pool = new ProtectedConnections()
  const { connection, closed } = opened()
  pool.lease(ada, () => connection).release()
  await vi.advanceTimersByTimeAsync(IDLE_MS / 2)
  const again = pool.lease(ada, () => opened().connection)
  expect(again.connection).toBe(connection)
  await vi.advanceTimersByTimeAsync(2 * IDLE_MS)
  expect(closed()).toBe(0)
})

test('users, declarations and stores never share one', () => {
  const pool = new ProtectedConnections()
  const other = new MCPServerOAuth({ name: 'notes', url: 'https://notes.example/mcp' })
  const keys = [ada, { ...ada, userId: 'eve' }, { ...ada, server: other }, { ...ada, store: {} as TokenStore }]
  const connections = keys.map((key) => pool.lease(key, () => opened().connection).connection)
  expect(new Set(connections).size).toBe(keys.length)
})

test('closing the pool closes every connection, used or idle, even if one fails to close', async () => {
  const pool = new ProtectedConnections()
  const used = opened()
  const idle = opened()
  const failing = { close: () => Promise.reject(new Error('lost')) } as unknown as ProtectedConnection
  pool.lease({ ...ada, userId: 'x' }, () => failing)
  pool.lease(ada, () => used.connection)
  pool.lease({ ...ada, userId: 'eve' }, () => idle.connection).release()
  await pool.close()
  expect([used.closed(), idle.closed()]).toEqual([1, 1])
})
