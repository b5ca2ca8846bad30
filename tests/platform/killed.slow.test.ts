import { randomUUID } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { openDatabase } from '@bureau/platform'
import { checkInvariants } from '@bureau/platform/testing'
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node'
import { McpServer } from '@modelcontextprotocol/server'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { startHttpServer } from '../support/http-server.ts'
import { type BureauProcess, startBureau } from '../support/bureau-process.ts'
import { type FakeProvider, hold, startFakeProvider, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest, TestStream } from '../support/test-server.ts'
import { TestClient } from './support/test-client.ts'

const SHOP = fileURLToPath(new URL('support/shop-agency.ts', import.meta.url))
const HINTS = fileURLToPath(new URL('support/hints-agency.ts', import.meta.url))

type Installation = {
  readonly provider: FakeProvider
  readonly folder: string
  start(env?: Record<string, string>): Promise<BureauProcess>
  client(url: string): TestClient
}

async function install(agency = SHOP): Promise<Installation> {
  const provider = await startFakeProvider()
  closeAfterTest(() => provider.close())
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-killed-'))
  closeAfterTest(async () => rmSync(folder, { recursive: true, force: true }))
  const env = { BUREAU_DATA: folder, OPENAI_API_KEY: 'sk', OPENAI_BASE_URL: provider.baseUrl }
  return {
    provider,
    folder,
    start: (more = {}) => startBureau(['start', agency], { ...env, ...more }),
    client: (url) => {
      const { apiKey, ownerId, apiIntegrationId } = JSON.parse(
        readFileSync(path.join(folder, 'credentials.json'), 'utf8'),
      )
      return new TestClient({ url, token: apiKey, ownerId, integrationId: apiIntegrationId })
    },
  }
}

async function expectNoViolations(folder: string): Promise<void> {
  const db = await openDatabase(`pglite:${folder}`)
  try {
    expect(await db.run(checkInvariants, { settled: true })).toEqual([])
  } finally {
    await db.close()
  }
}

/** A member with an allowance, so that money is at stake. */
async function withMember(client: TestClient): Promise<{ consumerId: string; usageRequestId: string }> {
  await client.call('PATCH', `/v1/integrations/${client.integrationId}`, { memberAllowancesEnabled: true })
  await client.post(`/v1/integrations/${client.integrationId}/members`, { consumerId: 'u', allowance: { messages: 5 } })
  return { consumerId: 'u', usageRequestId: randomUUID() }
}

test('kill -9 in the middle of a stream: after the restart the run goes on, charged once, and its client reads on', async () => {
  const installation = await install()
  const { provider, folder } = installation
  const killed = await installation.start()
  const before = installation.client(killed.url)
  const attribution = await withMember(before)
  const gate = provider.gate()
  provider.script([textDeltas(['Half an ', hold(gate), 'answer.']), text('A whole one.'), text('Another one.')])
  const stream = await before.complete(attribution)
  const seen = await stream.untilText('Half an')
  const ending = stream.all().then(
    () => 'ended',
    () => 'broken',
  )

  killed.child.kill('SIGKILL')

  expect(await ending).toBe('broken')
  expect(stream.frames.some(({ event }) => event === 'end')).toBe(false)
  const restarted = await installation.start()
  const client = installation.client(restarted.url)

  const resumed = await (await client.follow(stream.runId, `?starting_after=${seen.id}`)).all()
  expect(resumed.frames.some(({ event }) => event === 'run_resumed')).toBe(true)
  expect(resumed.ids.slice(-3).every((id) => id >= 1_000_000)).toBe(true)
  expect(resumed.result).toMatchObject({ status: 'completed' })
  expect(resumed.result.new_messages.at(-1).content[0].text).toBe('A whole one.')
  const query = `apiIntegrationId=${client.integrationId}&usageRequestId=${attribution.usageRequestId}`
  const found = await client.get(`/v1/chat_status?${query}`)
  expect(found.body).toMatchObject({ chatState: 'idle', run: { runId: stream.runId, status: 'completed' } })
  const replay = await client.completeWhole(attribution)
  expect(replay.headers.get('x-agent-run-replayed')).toBe('true')
  expect(replay.stream.result.status).toBe('completed')

  const again = await client.completeWhole({ consumerId: 'u', usageRequestId: randomUUID(), chatId: stream.chatId })
  expect(again.stream.spoken).toBe('Another one.')
  const member = await client.get(`/v1/integrations/${client.integrationId}/members/u`)
  expect(member.body).toMatchObject({ activeRuns: 0, allowance: { used: { messages: 2 } } })
  restarted.child.kill('SIGTERM')
  expect(await restarted.exited).toBe(0)
  await expectNoViolations(folder)
})

test('a run that outlasts the drain goes on after the restart, and its client is told to come again', async () => {
  const installation = await install()
  const { provider, folder } = installation
  const stopped = await installation.start({ PLATFORM_DRAIN_SECONDS: '1' })
  const before = installation.client(stopped.url)
  const attribution = await withMember(before)
  const gate = provider.gate()
  provider.script([textDeltas(['Half an ', hold(gate), 'answer.']), text('A whole one.')])
  const stream = await before.complete(attribution)
  await stream.untilText('Half an')

  stopped.child.kill('SIGTERM')

  await stream.all()
  expect(stream.text.endsWith('retry: 500\n\n')).toBe(true)
  expect(stream.frames.some(({ event }) => event === 'end')).toBe(false)
  expect(await stopped.exited).toBe(0)
  const restarted = await installation.start()
  const client = installation.client(restarted.url)
  const resumed = await (await client.follow(stream.runId, `?starting_after=${stream.ids.at(-1)}`)).all()
  expect(resumed.result).toMatchObject({ status: 'completed', usage: { request_count: 2 } })
  const member = await client.get(`/v1/integrations/${client.integrationId}/members/u`)
  expect(member.body.allowance.used.messages).toBe(1)
  restarted.child.kill('SIGTERM')
  expect(await restarted.exited).toBe(0)
  await expectNoViolations(folder)
})

test('a run whose integration wants it fails with the process that was killed, and is refunded', async () => {
  const installation = await install()
  const { provider, folder } = installation
  const killed = await installation.start()
  const before = installation.client(killed.url)
  const attribution = await withMember(before)
  await before.call('PATCH', `/v1/integrations/${before.integrationId}`, { whenRunnerLost: 'fail' })
  provider.script([textDeltas(['Half an ', hold(provider.gate()), 'answer.'])])
  const stream = await before.complete(attribution)
  const seen = await stream.untilText('Half an')

  killed.child.kill('SIGKILL')
  await stream.all().catch(() => {})
  const restarted = await installation.start()
  const client = installation.client(restarted.url)

  const resumed = await (await client.follow(stream.runId, `?starting_after=${seen.id}`)).all()
  expect(resumed.frames.slice(-3).map(({ event }) => event)).toEqual([null, 'messages', 'end'])
  expect(resumed.result).toMatchObject({ status: 'failed', error: { code: 'runner_lost' } })
  const member = await client.get(`/v1/integrations/${client.integrationId}/members/u`)
  expect(member.body).toMatchObject({ activeRuns: 0, allowance: { used: { messages: 0 } } })
  restarted.child.kill('SIGTERM')
  expect(await restarted.exited).toBe(0)
  await expectNoViolations(folder)
})

/** A tool server whose tools never answer their first call. `calls` counts, by name. */
async function startDeafToolServer() {
  const calls = new Map<string, number>()
  const kinds = { read: { readOnlyHint: true }, put: { idempotentHint: true }, pay: {} }
  const serve = (): McpServer => {
    const server = new McpServer({ name: 'deaf', version: '1.0.0' })
    for (const [name, annotations] of Object.entries(kinds)) {
      server.registerTool(name, { inputSchema: z.object({ by: z.string() }), annotations }, async ({ by }) => {
        const key = `${by} ${name}`
        const count = (calls.get(key) ?? 0) + 1
        calls.set(key, count)
        if (count === 1) await new Promise(() => {})
        return { content: [{ type: 'text', text: `done at call ${count}` }] }
      })
    }
    return server
  }
  const url = await startHttpServer((request, response) => {
    const transport = new NodeStreamableHTTPServerTransport({})
    void serve()
      .connect(transport)
      .then(() => transport.handleRequest(request, response))
  })
  return { url: `${url}/mcp`, calls }
}

test('after a kill -9 calls of tool servers are made again where a trusted server says that it does no harm', async () => {
  const tools = await startDeafToolServer()
  const installation = await install(HINTS)
  const { provider, folder } = installation
  const killed = await installation.start({ TOOLS_URL: tools.url })
  const asked = ['own', 'other'].flatMap((by) =>
    ['read', 'put', 'pay'].map((name) => toolCall(`mcp_${by}__${name}`, { by }, { callId: `${by}_${name}` })),
  )
  provider.script([asked, text('Done.')])
  const stream = await installation.client(killed.url).complete()
  await expect.poll(() => tools.calls.size).toBe(6)

  killed.child.kill('SIGKILL')
  await stream.all().catch(() => {})
  const restarted = await installation.start({ TOOLS_URL: tools.url })
  const resumed = await (await installation.client(restarted.url).follow(stream.runId)).all()

  const outputs = (resumed.result.new_messages as { type: string; call_id: string; output: unknown }[]).flatMap(
    ({ type, call_id: id, output }) => (type === 'function_call_output' ? [[id, JSON.stringify(output)] as const] : []),
  )
  const isKnown = ([id, output]: readonly [string, string]): [string, boolean] => [
    id,
    output.includes('done at call 2'),
  ]
  expect(Object.fromEntries(outputs.map(isKnown))).toEqual({
    own_read: true,
    own_put: true,
    own_pay: false,
    other_read: false,
    other_put: false,
    other_pay: false,
  })
  expect(outputs.filter(([, output]) => output.includes('The result is unknown'))).toHaveLength(4)
  expect(Object.fromEntries(tools.calls)).toEqual({
    'own read': 2,
    'own put': 2,
    'own pay': 1,
    'other read': 1,
    'other put': 1,
    'other pay': 1,
  })
  restarted.child.kill('SIGTERM')
  expect(await restarted.exited).toBe(0)
  await expectNoViolations(folder)
})

test('with onDisconnect=cancel a run that nobody has followed for ten seconds is cancelled, whoever was refused before', async () => {
  const installation = await install()
  const { provider } = installation
  const { url } = await installation.start()
  const client = installation.client(url)
  await client.call('PATCH', `/v1/integrations/${client.integrationId}`, { onDisconnect: 'cancel' })
  provider.script([textDeltas(['Half än ', hold(provider.gate()), 'answer.'])])
  const stream = await client.complete()
  await stream.untilText('Half än')
  const withinCharacter = await client.get(`/v1/runs/${stream.runId}/text?offset=6`)

  await stream.hangUp()

  expect(withinCharacter.body.code).toBe('invalid_offset')
  await provider.waitForAborts(1).catch(() => provider.waitForAborts(1)) // each waits ten seconds
  await expect.poll(async () => (await client.get(`/v1/runs/${stream.runId}`)).body.status).toBe('cancelled')
})

test('killed again and again under load, nothing contradicts itself', async () => {
  const installation = await install()
  const { provider, folder } = installation
  provider.respond(() => textDeltas(['One ', 'two ', 'three.']))
  const kills = 5
  for (let round = 0; round < kills; round++) {
    const process = await installation.start()
    const client = installation.client(process.url)
    const requests = Array.from({ length: 12 }, async () => {
      const response = await client
        .fetch('POST', '/get_completion_v2', client.completion({ usageRequestId: randomUUID() }))
        .catch(() => undefined)
      return response && new TestStream(response).all().catch(() => undefined)
    })
    await Promise.race(requests)
    process.child.kill('SIGKILL')
    await Promise.all([process.exited, ...requests])
  }
  const last = await installation.start()
  last.child.kill('SIGTERM')
  expect(await last.exited).toBe(0)
  await expectNoViolations(folder)
})
