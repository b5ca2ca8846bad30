import { fileURLToPath } from 'node:url'
import { createClient } from '@bureau/client'
import { expect, test } from 'vitest'
import { TEST_REDIS_URL, testRedisReachable } from '../support/test-redis.ts'
import { startBureau } from '../support/bureau-process.ts'
import { hold, startFakeProvider, textDeltas, toolCall } from '../support/fake-provider.ts'
import { RoundRobinProxy } from '../support/round-robin-proxy.ts'
import { closeAfterTest, TestStream } from '../support/test-server.ts'

const DEMO = fileURLToPath(new URL('../../examples/demo-agency.ts', import.meta.url))

test.runIf(await testRedisReachable())(
  'when the process of a run is killed, whoever follows it at another one gets an error and an end',
  async () => {
    const provider = await startFakeProvider()
    closeAfterTest(() => provider.close())
    provider.script([textDeltas(['One ', hold(provider.gate()), 'two.'])])
    const env = { REDIS_URL: TEST_REDIS_URL, OPENAI_API_KEY: 'sk-server', OPENAI_BASE_URL: provider.baseUrl }
    const [first, second] = await Promise.all([1, 2].map(() => startBureau(['serve', DEMO], env)))
    const response = await fetch(`${first!.url}/demo/get_response_stream`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ message: 'hi', on_disconnect: 'continue' }),
    })
    const stream = new TestStream(response)
    await stream.untilText('One')
    const follow = async (): Promise<TestStream> =>
      new TestStream(await fetch(`${second!.url}/demo/runs/${stream.runId}/events`))
    const follower = await follow()
    await follower.untilText('One')

    first!.child.kill('SIGKILL')
    const [late] = await Promise.all([follow(), expect(stream.all()).rejects.toThrow('terminated')])
    await Promise.all([follower.all(), late.all()])

    expect(follower.outline.slice(-3)).toEqual(['error', 'messages', 'end'])
    expect(follower.events.at(-1)).toEqual({
      error: 'The server running this response stopped.',
      code: 'runner_lost',
    })
    expect(late.frames).toEqual([late.frames[0], ...follower.frames.slice(1)])
  },
)

test.runIf(await testRedisReachable())(
  'a page reads a run of ten steps to its end over a broken connection and the end of the process that it read at',
  async () => {
    const provider = await startFakeProvider()
    closeAfterTest(() => provider.close())
    const gates = [provider.gate(), provider.gate()] as const
    const steps = Array.from({ length: 10 }, (_, index) => toolCall('ConvertCurrency', { amount: index + 1 }))
    const answer = textDeltas(['One ', hold(gates[0]), 'two ', hold(gates[1]), 'three.'])
    provider.script([...steps, answer])
    const env = { REDIS_URL: TEST_REDIS_URL, OPENAI_API_KEY: 'sk-server', OPENAI_BASE_URL: provider.baseUrl }
    const processes = await Promise.all([1, 2].map(() => startBureau(['serve', DEMO], env)))
    const proxy = await RoundRobinProxy.start(() => processes.map(({ url }) => url))
    closeAfterTest(async () => proxy.close())
    const run = createClient({ url: `${proxy.url}/demo`, resume: true, storage: false }).stream('Convert.')
    const deltas: string[] = []
    const reading = (async () => {
      for await (const event of run) {
        if (event.type === 'raw_response_event' && event.data.type === 'response.output_text.delta')
          deltas.push(event.data.delta ?? '')
      }
    })()

    await expect.poll(() => deltas).toEqual(['One '])
    const other = processes.find(({ url }) => proxy.lastSentAt(url) === 0)!
    proxy.breakAll()
    gates[0].release()
    await expect.poll(() => [deltas.length, proxy.lastSentAt(other.url) > 0]).toEqual([2, true])
    other.child.kill('SIGTERM')
    const exit = await other.exited
    gates[1].release()
    const [result] = await Promise.all([run.result, reading])

    expect(exit).toBe(0)
    expect(deltas).toEqual(['One ', 'two ', 'three.'])
    expect(result.text).toBe('One two three.')
    expect(result.messages.filter(({ type }) => type === 'function_call_output')).toHaveLength(10)
    expect(run.parts.filter(({ type }) => type === 'tool')).toHaveLength(10)
  },
)
