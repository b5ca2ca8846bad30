import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startBureau } from '../support/bureau-process.ts'
import { startOtlpCollector } from '../support/otlp-collector.ts'

const DEMO = fileURLToPath(new URL('../../examples/demo-agency.ts', import.meta.url))

type Line = Readonly<Record<string, unknown>>

const linesOf = (output: string): Line[] =>
  output.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Line] : []))

test('every line about a request carries its id, and none says what was asked', async () => {
  const bureau = await startBureau(['serve', DEMO])
  const headers = {
    'content-type': 'application/json',
    'x-request-id': 'request-0001',
    authorization: 'Bearer abc-secret',
  }
  const body = JSON.stringify({
    message: 'the private question',
    user_context: { who: 'the private context' },
    client_config: { api_key: 'sk-private-key-1' },
  })

  await fetch(`${bureau.url}/demo/get_response?token=query-secret`, { method: 'POST', headers, body })
  await fetch(`${bureau.url}/demo/get_response_stream`, { method: 'POST', headers, body: '{}' })
  await fetch(`${bureau.url}/no/such/place?token=query-secret`, { headers })
  bureau.child.kill('SIGTERM')
  await bureau.exited

  const lines = linesOf(bureau.output()).filter((line) => 'requestId' in line)
  const shown = lines.map(({ msg, requestId, method, route, status }) => ({ msg, requestId, method, route, status }))
  expect(shown).toEqual([
    { msg: 'client_config is not applied: the demo model asks no provider', requestId: 'request-0001' },
    { msg: 'run ended', requestId: 'request-0001', status: 'completed' },
    { msg: 'request', requestId: 'request-0001', method: 'POST', route: '/demo/get_response', status: 200 },
    { msg: 'request', requestId: 'request-0001', method: 'POST', route: '/demo/get_response_stream', status: 422 },
    { msg: 'request', requestId: 'request-0001', method: 'GET', status: 404 },
  ])
  expect(lines[2]!['durationMs']).toEqual(expect.any(Number))
  for (const secret of ['private', 'secret']) expect(JSON.stringify(lines)).not.toContain(secret)
})

test('a collector in the environment gets the traces of the command', async () => {
  const collector = await startOtlpCollector()
  const bureau = await startBureau(['serve', DEMO], {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_SERVICE_NAME: 'support-desk',
  })

  const body = JSON.stringify({ message: 'What is the weather in Paris?' })
  await fetch(`${bureau.url}/demo/get_response`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  bureau.child.kill('SIGTERM')
  await bureau.exited

  expect(collector.spans.map((span) => span.name)).toContain('invoke_workflow demo')
  expect(collector.spans[0]!.resource['service.name']).toBe('support-desk')
  expect(JSON.stringify(collector.spans)).not.toContain('Paris')
})
