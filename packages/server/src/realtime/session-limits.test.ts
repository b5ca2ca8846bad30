import { Agency, Agent } from '@bureau/framework'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { RealtimeOptions } from './realtime-options.ts'
import { startRealtimeServer } from './realtime.test-support.ts'
import { SessionLimits } from './session-limits.ts'

const PATH = '/shop/realtime'

/** A session that has begun, on a server with these limits. */
async function openSession(realtime: RealtimeOptions) {
  const desk = new Agent({ name: 'Desk', instructions: 'You are the desk.' })
  const server = await startRealtimeServer({ agencies: { shop: new Agency({ entryPoint: desk }) }, realtime })
  const client = await server.connect(PATH)
  const session = await server.provider.nextSession()
  await client.next('history_updated')
  return { client, session }
}

test.each([
  ['has lasted long enough', { maxSessionMs: 200 }, 'session too long'],
  ['is silent for long enough', { idleMs: 200 }, 'session idle'],
])('a session that %s ends, with the provider too', async (_what, limits, reason) => {
  const { client, session } = await openSession(limits)
  expect(await client.closed).toEqual({ code: 1008, reason })
  await session.next('close')
})

test('whatever client or model send puts off the end of a silent session, not that of a long one', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const ends: string[] = []
  const settings = { maxMessagesPerSecond: 50, maxSessionBytes: 10_000, maxSessionMs: 10_000, idleMs: 1_000 }
  const silent = new SessionLimits(settings, (reason) => ends.push(`silent: ${reason}`))
  const lively = new SessionLimits(settings, (reason) => ends.push(`lively: ${reason}`))

  for (let times = 0; times < 3; times++) {
    vi.advanceTimersByTime(900)
    lively.touch()
  }
  expect(ends).toEqual(['silent: session idle'])
  for (let times = 0; times < 10; times++) {
    vi.advanceTimersByTime(900)
    lively.count(10)
  }
  expect(ends).toEqual(['silent: session idle', 'lively: session too long'])
  silent.close()
  vi.advanceTimersByTime(60_000)
  expect(ends).toHaveLength(2)
})

test('a session ends when its client has sent too much in all', async () => {
  const { client, session } = await openSession({ maxSessionBytes: 10_000 })
  for (let number = 0; number < 20; number++) client.send(Buffer.alloc(1_000))
  expect(await client.closed).toEqual({ code: 1008, reason: 'session too large' })
  await session.next('close')
  expect(session.received.filter(({ type }) => type === 'input_audio_buffer.append')).toHaveLength(10)
})

test('a client that sends too fast is read more slowly, and loses nothing', async () => {
  const { client, session } = await openSession({ maxMessagesPerSecond: 50 })
  const startedAt = performance.now()
  // More than what a socket hands over at once.
  for (let number = 0; number < 100; number++) client.send(Buffer.alloc(30_000, number))
  for (let number = 0; number < 100; number++) {
    const { audio } = await session.next('input_audio_buffer.append')
    expect(Buffer.from(audio, 'base64')[0]).toBe(number)
  }
  // The first fifty may come at once, the last one a second later.
  expect(performance.now() - startedAt).toBeGreaterThan(900)
})
