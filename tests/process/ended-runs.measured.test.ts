import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { type Launched, launch } from '../../bench/launch.ts'
import { measureLoad, type Target } from '../../bench/load.ts'
import { type Answering, SCENARIOS } from '../../bench/scenarios.ts'

const start = async (script: string, environment: Record<string, string> = {}): Promise<Launched> => {
  const launched = await launch({
    script: fileURLToPath(new URL(`../../bench/${script}`, import.meta.url)),
    environment,
  })
  onTestFinished(() => launched.stop())
  return launched
}

const answeringOf = (scenario: string): Answering => SCENARIOS.find(({ name }) => name.startsWith(scenario))!.answering

// What outlives its run is copied twice by V8 and waits for a full collection: it costs more than most of the run.
test.each(['5 deltas in a burst', 'one tool round'])(
  'of a run that has ended, less than 6 KB wait for a full collection: %s',
  async (scenario) => {
    const provider = await start('upstream.ts')
    const server = await start('server.ts', {
      OPENAI_BASE_URL: `http://127.0.0.1:${provider.port}/v1`,
      OPENAI_API_KEY: 'sk-test',
    })
    await fetch(`http://127.0.0.1:${provider.port}/answering`, {
      method: 'PUT',
      body: JSON.stringify(answeringOf(scenario)),
    })
    const target: Target = {
      port: server.port,
      path: '/demo/get_response_stream',
      body: JSON.stringify({ message: 'Hello.' }),
      endMark: 'event: end',
      failMark: '{"data":{"type":"error"',
    }
    const load = { concurrency: 8, deltas: null, readCpuNs: () => 0, warmUpMs: 0 }
    await measureLoad(target, { ...load, measureMs: 3_000 })

    const before = await server.collectGarbage()
    const { streams } = await measureLoad(target, { ...load, measureMs: 1_000 })
    const perRun = (Number(await server.ask('collect young garbage')) - before) / streams

    expect(perRun).toBeLessThan(6 * 1024)
  },
)
