import { Agency, Agent } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { hold, stall, text, textDeltas } from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

describe('maxConcurrentRuns', () => {
  const ask = (message: string) => ({ message })

  test('503 for requests beyond it, which cost nothing; a run that ends makes room', async () => {
    const server = await startTestServer({ agencies: soloAgency(), maxConcurrentRuns: 2 })
    const gate = server.provider.gate()
    server.provider.respond(() => textDeltas(['Half', hold(gate)]))
    const streams = await Promise.all([1, 2].map(() => server.stream('/solo/get_response_stream', ask('a'))))
    await gate.reached(2)

    const whole = await server.post('/solo/get_response', ask('b'))
    const streamed = await server.post('/solo/get_response_stream', ask('b'))
    await server.post('/solo/cancel_response_stream', { run_id: await runIdOf(streams[0]!) })
    gate.release()

    for (const { status, headers, body } of [whole, streamed]) {
      expect([status, headers.get('retry-after')]).toEqual([503, '1'])
      expect(body.error).toBe('The server is at its limit. Try again shortly.')
    }
    expect((await server.post('/solo/get_response', ask('c'))).status).toBe(200)
    expect(server.provider.modelRequests).toHaveLength(3)
  })

  test('a request that is refused for another reason takes no place', async () => {
    const server = await startTestServer({ agencies: soloAgency(), maxConcurrentRuns: 1 })
    server.provider.respond(() => text('ok'))

    const refused = await Promise.all([{}, { message: 5 }].map((body) => server.post('/solo/get_response', body)))

    expect(refused.map(({ status }) => status)).toEqual([422, 422])
    expect((await server.post('/solo/get_response', ask('a'))).status).toBe(200)
  })

  async function runIdOf(stream: Awaited<ReturnType<Awaited<ReturnType<typeof startTestServer>>['stream']>>) {
    await stream.until(({ event }) => event === 'meta')
    return stream.runId
  }
})

describe('runTimeoutMs', () => {
  const agency = (runTimeoutMs: number) =>
    new Agency({ entryPoint: new Agent({ name: 'Solo', instructions: 'x', model: 'gpt-test' }), runTimeoutMs })

  test('a run that takes longer fails with a clear error, its model request ends, and usage is told', async () => {
    const server = await startTestServer({ agencies: { solo: agency(50) } })
    server.provider.respond(() => [text('Half'), stall()])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()
    const whole = await server.post('/solo/get_response', { message: 'hi' })

    const error = stream.events.find(({ type }) => type === 'error')
    expect(error).toMatchObject({ code: 'run_timeout', content: 'The run took longer than it may.', agent: 'Solo' })
    expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
    expect(stream.result).toMatchObject({ usage: { request_count: expect.any(Number) } })
    expect(stream.result).not.toHaveProperty('cancelled')
    expect([whole.status, whole.body.error]).toEqual([500, 'The run took longer than it may.'])
    await server.provider.waitForAborts(2)
  })
})

describe('several server tokens', () => {
  const options = { agencies: soloAgency(), env: { APP_TOKEN: ' old-token\tnew-token ' }, enableRealtime: true }

  test.each([
    ['old-token', 200],
    ['new-token', 200],
    ['old-token new-token', 401],
    ['old', 401],
  ])('%j is answered with %d', async (token, status) => {
    const server = await startTestServer(options)

    expect((await server.get('/solo/get_metadata', { authorization: `Bearer ${token}` })).status).toBe(status)
  })

  test('each opens realtime connections, too', async () => {
    const server = await startTestServer(options)
    const get = (token: string) => server.get('/solo/realtime', { authorization: `Bearer ${token}` })

    expect([(await get('new-token')).status, (await get('other')).status]).toEqual([404, 401])
  })
})
