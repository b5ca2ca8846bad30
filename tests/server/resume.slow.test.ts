import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { TEST_REDIS_URL, testRedisReachable } from '../oauth/support/test-redis.ts'
import { startBureau } from '../support/bureau-process.ts'
import { hold, startFakeProvider, textDeltas } from '../support/fake-provider.ts'
import { closeAfterTest, TestStream } from '../support/test-server.ts'

const DEMO = fileURLToPath(new URL('../../examples/demo-agency.ts', import.meta.url))

test.runIf(await testRedisReachable())(
  'when the process of a run is killed, whoever follows it at another one gets an error and an end',
  { timeout: 90_000 },
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
    expect(follower.events.at(-1)).toEqual({ error: 'The server running this response stopped.' })
    expect(late.frames).toEqual([late.frames[0], ...follower.frames.slice(1)])
  },
)
