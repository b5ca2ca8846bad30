import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { type Launched, launch } from '../../bench/launch.ts'
import { holdStreams, measureLoad, type Target } from '../../bench/load.ts'
import { FIRST_DELTA, HELD, type Answering } from '../../bench/scenarios.ts'

const STREAMS = 300
const TOOL_ROUND = [[{ name: 'get_weather', arguments: '{"city":"Paris"}' }]]

const start = async (script: string, environment: Record<string, string> = {}): Promise<Launched> => {
  const launched = await launch({
    script: fileURLToPath(new URL(`../../bench/${script}`, import.meta.url)),
    environment,
  })
  onTestFinished(() => launched.stop())
  return launched
}

test.each([
  ['in its first answer', HELD],
  ['after a tool call', { ...HELD, rounds: TOOL_ROUND }],
])('an open stream whose model is silent %s keeps less than 45 KB of heap', async (_when, held) => {
  const provider = await start('upstream.ts')
  const server = await start('server.ts', {
    OPENAI_BASE_URL: `http://127.0.0.1:${provider.port}/v1`,
    OPENAI_API_KEY: 'sk-test',
  })
  const setAnswering = (answering: Answering): Promise<unknown> =>
    fetch(`http://127.0.0.1:${provider.port}/answering`, { method: 'PUT', body: JSON.stringify(answering) })
  const target: Target = {
    port: server.port,
    path: '/demo/get_response_stream',
    body: JSON.stringify({ message: 'Hello.' }),
    endMark: 'event: end',
    failMark: '{"data":{"type":"error"',
  }
  // What is loaded and compiled for the first runs is none of a stream's.
  await setAnswering({ ...FIRST_DELTA.answering, rounds: held.rounds })
  await measureLoad(target, { concurrency: 8, deltas: null, readCpuNs: () => 0, warmUpMs: 0, measureMs: 1_500 })
  await setAnswering(held)

  const before = await server.collectGarbage()
  const release = await holdStreams(target, STREAMS)
  const perStream = ((await server.collectGarbage()) - before) / STREAMS
  release()

  expect(perStream).toBeLessThan(45 * 1024)
})
