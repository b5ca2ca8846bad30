import { expect, test } from 'vitest'
import {
  clientOf,
  EXPECTED,
  FRAMES,
  framesAfter,
  heard,
  KINDS,
  META,
  startScriptedServer,
} from './scripted-server.test-support.ts'

test.each(KINDS)('%s: cut at any byte, each event comes once and in order, and nothing is sent twice', async (kind) => {
  const server = await startScriptedServer(FRAMES)
  const whole = Buffer.byteLength(framesAfter(FRAMES, 0))
  // A self-hosted run whose id did not arrive cannot be found again.
  const first = kind === 'platform' ? 0 : META.length
  for (let cutAfter = first; cutAfter < whole; cutAfter += 1) {
    server.next({ cutAfter }, { cutAfter: cutAfter % 400 })
    const sent = server.requests.length
    const run = clientOf(kind, server.url).stream('Hi')

    expect(await heard(run)).toEqual(EXPECTED)
    expect(await run.result).toMatchObject({ status: 'completed', text: 'Héllo 🌍', run: 'run-1' })
    const posts = server.requests.slice(sent).filter(({ method }) => method === 'POST')
    expect(new Set(posts.map(({ body }) => JSON.stringify(body))).size).toBe(1)
    if (kind !== 'platform') expect(posts).toHaveLength(1)
  }
})
