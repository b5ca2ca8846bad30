import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { describe, expect, test } from 'vitest'
import { cut, hold, refusal, status, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import type { TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

type Read = { readonly response: IncomingMessage; readonly body: string; readonly broken: boolean }

/** Reads with Node's own client, which shows trailers and resets. */
async function read(client: TestClient, method: string, path: string, body?: object): Promise<Read> {
  const headers = { authorization: `Bearer ${client.token}`, 'content-type': 'application/json' }
  const asking = httpRequest(client.url + path, { method, headers, agent: false })
  asking.end(body && JSON.stringify(body))
  const [response] = (await once(asking, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  response.on('data', (chunk: Buffer) => chunks.push(chunk))
  const broken = await once(response, 'end').then(
    () => false,
    () => true,
  )
  return { response, body: Buffer.concat(chunks).toString(), broken }
}

const complete = (client: TestClient, fields: object = {}): Promise<Read> =>
  read(client, 'POST', '/get_completion_v2', client.completion({ ...fields }))

describe.each(ENGINES)('Text Only Mode on %s', (engine) => {
  const platform = servePlatform(engine)

  test('the answer is the text for the user and nothing else, with its status as a trailer', async () => {
    const client = await platform.client({ textOnlyMode: true })
    platform.provider.script([
      toolCall('send_message', { recipient_agent: 'Clerk', message: 'Any boots?' }),
      text('Twelve pairs.'),
      textDeltas(['Wir haben ', 'zwölf ', '👢.']),
    ])

    const { response, body, broken } = await complete(client)

    expect(response.headers['content-type']).toBe('text/plain; charset=utf-8')
    expect(response.headers['x-agent-run-admitted']).toBe('true')
    expect([body, broken]).toEqual(['Wir haben zwölf 👢.', false])
    expect(response.trailers['x-agent-run-status']).toBe('completed')
  })

  test.each([
    ['after its first words', [textDeltas(['Half an ans']), cut({ after: 4, how: 'reset' as const })]],
    ['before it said anything', status(401, { message: 'no' })],
  ])('a run that fails %s ends in a reset, without a sentence', async (_name, turn) => {
    const client = await platform.client({ textOnlyMode: true })
    platform.provider.script([turn])

    const { response, body, broken } = await complete(client)

    expect(broken).toBe(true)
    expect(body).not.toMatch(/error|fail|provider/i)
    const run = await client.get(`/v1/runs/${response.headers['x-agent-run-id'] as string}`)
    expect(run.body).toMatchObject({ status: 'failed', error: { class: 'upstream' } })
  })

  test('a refusal of the model is text as any other', async () => {
    const client = await platform.client({ textOnlyMode: true })
    platform.provider.script([refusal('I will not do that.')])

    const { body, response } = await complete(client)

    expect(body).toBe('I will not do that.')
    const whole = await client.get(`/v1/runs/${response.headers['x-agent-run-id'] as string}/text`)
    expect(whole.text).toBe('I will not do that.')
  })

  test('a cancelled run ends normally', async () => {
    const client = await platform.client({ textOnlyMode: true })
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    const reading = complete(client, { usageRequestId: 'r-1' })
    await gate.reached()
    const found = await client.get(`/v1/chat_status?apiIntegrationId=${client.integrationId}&usageRequestId=r-1`)

    await client.post(`/v1/runs/${found.body.run.runId}/cancel`)

    const { body, broken, response } = await reading
    expect([body, broken]).toEqual(['One ', false])
    expect(response.trailers['x-agent-run-status']).toBe('cancelled')
  })

  test('the text goes on from any byte that begins a character', async () => {
    const client = await platform.client({ textOnlyMode: true })
    platform.provider.script([text('zwölf 👢.')])
    const { response, body } = await complete(client)
    const runId = response.headers['x-agent-run-id'] as string
    const from = (offset: string | number) => read(client, 'GET', `/v1/runs/${runId}/text?offset=${offset}`)

    expect(body).toBe('zwölf 👢.')
    expect((await from(0)).body).toBe('zwölf 👢.')
    expect((await from(4)).body).toBe('lf 👢.')
    for (const offset of [3, 8, 9, 'x', -1, '1.5']) {
      const refused = await from(offset)
      expect([refused.response.statusCode, JSON.parse(refused.body).code]).toEqual([400, 'invalid_offset'])
    }
    expect((await from(Buffer.byteLength(body))).response.statusCode).toBe(204)
    expect((await from(1_000)).response.statusCode).toBe(204)
  })

  test('the same request again gets the same text', async () => {
    const client = await platform.client({ textOnlyMode: true })
    platform.provider.script([text('Once.')])

    const [first, second] = [
      await complete(client, { usageRequestId: 'r-2' }),
      await complete(client, { usageRequestId: 'r-2' }),
    ]

    expect([first.body, second.body]).toEqual(['Once.', 'Once.'])
    expect(second.response.headers['x-agent-run-replayed']).toBe('true')
    const events = await (await client.follow(first.response.headers['x-agent-run-id'] as string)).all()
    expect(events.spoken).toBe('Once.')
  })
})
