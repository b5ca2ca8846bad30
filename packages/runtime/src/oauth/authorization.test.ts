import { expect, test } from 'vitest'
import type { RunEvent } from '@bureau/protocol'
import { authorizeThrough } from './authorization.ts'
import { MemoryOAuthStateRegistry } from './oauth-state-registry.memory.ts'
import type { Waited } from './oauth-state-registry.ts'

/** Knows how long each wait may take, and answers none. */
class MeasuredRegistry extends MemoryOAuthStateRegistry {
  readonly waits: number[] = []

  override async wait(_state: string, { timeoutMs }: { readonly timeoutMs: number }): Promise<Waited> {
    this.waits.push(timeoutMs)
    return { status: 'timeout' }
  }
}

async function signIn(registry: MemoryOAuthStateRegistry, timeoutMs?: number): Promise<RunEvent[]> {
  const events: RunEvent[] = []
  const asking = authorizeThrough(
    registry,
    timeoutMs,
  )({
    state: 's',
    authorizationUrl: new URL('https://login.example/authorize?state=s'),
    server: 'notes',
    userId: 'ada',
    emit: (event) => void events.push(event),
    exchange: async () => {},
    signal: new AbortController().signal,
  })
  await asking.catch(() => {})
  return events
}

test('a user has ten minutes, unless the server says otherwise', async () => {
  const registry = new MeasuredRegistry()
  await signIn(registry)
  await signIn(registry, 300)
  expect(registry.waits).toEqual([600_000, 300])
})

test('the events of a sign-in have exactly the members that clients know', async () => {
  expect(await signIn(new MeasuredRegistry())).toEqual([
    { type: 'oauth.redirect', state: 's', server: 'notes', auth_url: 'https://login.example/authorize?state=s' },
    { type: 'oauth.status', state: 's', server: 'notes', status: 'pending' },
    { type: 'oauth.status', state: 's', server: 'notes', status: 'timeout' },
  ])
})
