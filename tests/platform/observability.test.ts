import { Agency, Agent } from '@bureau/framework'
import { expect, onTestFinished, test } from 'vitest'
import { pay } from '../support/conversations.ts'
import { hold, text, textDeltas, toolCall, usage } from '../support/fake-provider.ts'
import { startOtlpCollector } from '../support/otlp-collector.ts'
import { type Served, startPlatform } from './support/test-platform.ts'

type Line = Readonly<Record<string, unknown>>

const OPERATOR_KEY = 'the-long-random-text-of-an-operator'

/** A platform, and what it has logged so far. */
async function start(config: Parameters<typeof startPlatform>[1] = {}): Promise<{ platform: Served; lines: Line[] }> {
  const lines: Line[] = []
  const logDestination = { write: (line: string) => void lines.push(JSON.parse(line) as Line) }
  const platform = await startPlatform('pglite', { logLevel: 'info', logDestination, ...config })
  onTestFinished(() => platform.close())
  return { platform, lines }
}

test('each request is logged once, with its id, its route, its owner and its run', async () => {
  const { platform, lines } = await start()
  const client = await platform.client()
  platform.provider.script([text('Done.')])

  const { stream } = await client.completeWhole({}, { headers: { 'x-request-id': 'trip-0001' } })

  await expect
    .poll(() => lines.filter(({ requestId, msg }) => requestId === 'trip-0001' && msg === 'request'))
    .toEqual([
      expect.objectContaining({
        level: 30,
        method: 'POST',
        route: '/get_completion_v2',
        status: 200,
        durationMs: expect.any(Number),
        ownerId: client.ownerId,
        runId: stream.runId,
      }),
    ])
  const { runId } = stream
  expect(lines.find(({ msg }) => msg === 'run ended')).toMatchObject({
    runId,
    ownerId: client.ownerId,
    agency: 'shop',
    status: 'completed',
    durationMs: expect.any(Number),
  })
  expect(JSON.stringify(lines)).not.toContain(client.token)
})

test('probes are logged for those who look closely', async () => {
  const { platform, lines } = await start({ logLevel: 'debug' })

  await fetch(`${platform.url}/readyz`)

  await expect.poll(() => lines.find(({ route }) => route === '/readyz')).toMatchObject({ level: 20, status: 200 })
})

test('what a server refuses because it is busy or stops is no defect', async () => {
  const { platform, lines } = await start({ config: { maxActiveRuns: 1 } })
  const client = await platform.client()
  const gate = platform.provider.gate()
  platform.provider.script([textDeltas(['a', hold(gate), 'b'])])
  const active = await client.complete()

  const refused = await client.completeWhole()
  const elsewhere = await fetch(`${platform.url}/openai/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${client.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: client.integrationId, input: 'Hi' }),
  })

  expect([refused.status, elsewhere.status]).toEqual([503, 503])
  const refusals = lines.filter(({ code }) => code === 'overloaded')
  expect(refusals.map(({ level, err }) => [level, err])).toEqual([
    [30, undefined],
    [30, undefined],
  ])
  gate.release()
  await active.all()
})

test('the operator reads the metrics of a process with the operator’s key, and nobody else does', async () => {
  const { platform } = await start({ config: { metrics: true, operatorKey: OPERATOR_KEY } })
  const client = await platform.client()
  platform.provider.script([text('Done.')])
  await client.completeWhole()
  const read = (token: string): Promise<Response> =>
    fetch(`${platform.url}/v1/admin/metrics`, { headers: { authorization: `Bearer ${token}` } })

  expect((await read(client.token)).status).toBe(401)
  const answer = await read(OPERATOR_KEY)

  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, expect.stringContaining('text/plain')])
  const metrics = await answer.text()
  expect(metrics).toContain('bureau_runs_total{agency="shop",status="completed"} 1')
  expect(metrics).toMatch(/bureau_tokens_total\{agency="shop",agent="CEO",model="[^"]+",type="input"\} [1-9]/)
  expect(metrics).toContain('bureau_event_loop_lag_seconds')
})

test('a run that waits for a person counts once for what it has spent', async () => {
  const shop = new Agency({
    entryPoint: new Agent({ name: 'CEO', instructions: 'Help.', model: 'gpt-test', tools: [pay] }),
  })
  const { platform } = await start({ agencies: { shop }, config: { metrics: true, operatorKey: OPERATOR_KEY } })
  const client = await platform.client()
  const spent = usage({ input: 100, output: 10 })
  platform.provider.script([
    [toolCall('pay', { euros: 5 }, { callId: 'call_1' }), spent],
    [text('Done.'), spent],
  ])
  const { stream } = await client.completeWhole()

  await client.post(`/v1/runs/${stream.runId}/approvals`, [{ callId: 'call_1', approve: true }])

  const ended = async (): Promise<unknown> => (await client.get(`/v1/runs/${stream.runId}`)).body.status
  await expect.poll(ended).toBe('completed')
  const headers = { authorization: `Bearer ${OPERATOR_KEY}` }
  const metrics = await (await fetch(`${platform.url}/v1/admin/metrics`, { headers })).text()
  expect(metrics).toContain('bureau_model_requests_total{agent="CEO",outcome="ok"} 2')
  expect(metrics).toMatch(/bureau_tokens_total\{agency="shop",agent="CEO",model="[^"]+",type="input"\} 200\n/)
})

test('404 without BUREAU_METRICS', async () => {
  const { platform } = await start({ config: { operatorKey: OPERATOR_KEY } })

  const headers = { authorization: `Bearer ${OPERATOR_KEY}` }
  const answer = await fetch(`${platform.url}/v1/admin/metrics`, { headers })

  expect([answer.status, await answer.text()]).toEqual([404, expect.stringContaining('BUREAU_METRICS=true')])
})

test('runs are sent to the collector that the environment names, as parts of the caller’s trace', async () => {
  const collector = await startOtlpCollector()
  const { platform } = await start({ config: { tracesEndpoint: collector.url } })
  const client = await platform.client()
  platform.provider.script([text('Done.')])

  const traceparent = `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`
  const { stream } = await client.completeWhole({}, { headers: { traceparent } })
  await platform.app.close()

  const run = collector.spans.find(({ name }) => name === 'invoke_workflow shop')
  expect([run?.traceId, run?.parentSpanId]).toEqual(['ab'.repeat(16), 'cd'.repeat(8)])
  expect(run?.attributes).toMatchObject({ 'bureau.run.id': stream.runId, 'bureau.run.status': 'completed' })
  expect(collector.spans.map(({ name }) => name)).toEqual(expect.arrayContaining(['invoke_agent CEO', 'chat gpt-test']))
})
