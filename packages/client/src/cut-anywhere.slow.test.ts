import { expect, test } from 'vitest'
import { createClient } from './client.ts'
import {
  clientOf,
  EXPECTED,
  FRAMES,
  framesAfter,
  framesOf,
  heard,
  KINDS,
  META,
  SOON,
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

const words = Array.from({ length: 196 }, (_, at) => (at % 7 === 0 ? '🌍' : `${at} `))
const LONG = framesOf(words)
/** What a reader gets who has the first so many frames. */
const LONG_BYTES = LONG.map((_frame, after) => Buffer.from(framesAfter(LONG, after)))

/** Breaks the first answer off after so many bytes; whoever comes back gets the rest. */
function fetchCutAfter(bytes: number): typeof fetch {
  let requests = 0
  return async (input) => {
    const whole = LONG_BYTES[Number(/starting_after=(\d+)/.exec(input as string)?.[1] ?? 0)]!
    requests += 1
    const sent = requests === 1 ? whole.subarray(0, bytes) : whole
    const chunks = [sent]
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        const chunk = chunks.pop()
        if (chunk) controller.enqueue(chunk)
        else if (sent === whole) controller.close()
        else controller.error(new TypeError('terminated'))
      },
    })
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  }
}

// Tens of thousands of runs: ten tests, so that a machine that is busy keeps within the time limit of each.
test.each([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])(
  'of 200 events, cut at any byte whose number ends with %d, none is missing and none comes twice',
  async (digit) => {
    expect(LONG.length).toBe(200)
    for (let cutAfter = digit; cutAfter < LONG_BYTES[0]!.length; cutAfter += 10) {
      const fetch = fetchCutAfter(cutAfter)
      const common = { url: 'http://agents.test', retryDelaysMs: SOON, fetch }
      // A self-hosted run whose id did not arrive cannot be found again.
      const isHosted = cutAfter % 2 === 0 || cutAfter < META.length
      const client = isHosted
        ? createClient({ ...common, integration: 'int-1' })
        : createClient({ ...common, resume: true })
      const run = client.stream('Hi')
      await run.result
      const pieces: string[] = []
      for await (const piece of run.text()) pieces.push(piece)

      if (pieces.length !== words.length || pieces.join('') !== words.join(''))
        expect(pieces, `cut ${cutAfter}`).toEqual(words)
    }
  },
)
