import { mkdirSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { Agency, Agent, tool } from '@bureau/framework'
import { sharePort } from '@bureau/platform'
import { seededConsumer, seedHistory } from '@bureau/platform/testing'
import { createApp, loadConfig } from '@bureau/server'
import { z } from 'zod'
import { TestClient } from '../../platform/support/test-client.ts'
import { startPlatform } from '../../platform/support/test-platform.ts'
import { type FakeProvider, status, text, toolCall, type Turn } from '../../support/fake-provider.ts'

const getWeather = tool({
  name: 'get_weather',
  description: 'Tells the weather of a city.',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => `It is 18 °C and sunny in ${city}.`,
})

const bookHotel = tool({
  name: 'book_hotel',
  description: 'Books a room.',
  parameters: z.object({ hotel: z.string(), nights: z.int() }),
  needsApproval: { when: () => true, edit: true },
  execute: ({ hotel, nights }) => `${nights} nights at ${hotel} are booked.`,
})

/** The Concierge asks the Weather agent, and books hotels when a person agrees. */
function travelAgency(): Agency {
  const weather = new Agent({
    name: 'Weather',
    description: 'Knows the weather and what to wear.',
    instructions: 'Help.',
    model: 'gpt-5-mini',
    tools: [getWeather],
  })
  const concierge = new Agent({
    name: 'Concierge',
    description: 'Welcomes travellers and finds them the right specialist.',
    instructions: 'Help.',
    model: 'gpt-5-mini',
    tools: [bookHotel],
    conversationStarters: ['What is the weather in Paris?'],
  })
  return new Agency({ name: 'Travel', entryPoint: concierge, flows: [[concierge, weather]] })
}

/** What the model says when it is asked for the weather in Paris. */
export const WEATHER_IN_PARIS: readonly Turn[] = [
  toolCall('send_message', { recipient_agent: 'Weather', message: 'What is the weather in Paris?' }),
  toolCall('get_weather', { city: 'Paris' }),
  text('18 °C and sunny: a light jacket will do.'),
  text('It is **18 °C and sunny** in Paris today.\n\n- A light jacket will do.\n- No umbrella is needed.'),
]

const OPERATOR_KEY = 'the key of the operator, which is long enough'

const WRONG_KEY = status(401, { error: { message: 'Incorrect API key provided: sk-…4f2a.', code: 'invalid_api_key' } })

/** A server on whose every page there is something to see. */
export type TravelServer = {
  readonly url: string
  readonly provider: FakeProvider
  /** Signed in at the platform, as an owner and as the operator. */
  readonly signedIn: Readonly<Record<string, string>>
  /** What stands in addresses. */
  readonly ids: Readonly<Record<'run' | 'other' | 'failed' | 'integration' | 'chat' | 'platformRun', string>>
  close(): Promise<void>
}

/** The self-hosted server and the platform on one port, with runs of both. */
export async function startTravelServer(): Promise<TravelServer> {
  const agencies = { travel: travelAgency() }
  const platform = await startPlatform('pglite', { agencies, config: { operatorKey: OPERATOR_KEY } }, { listen: false })
  const { provider } = platform
  const config = loadConfig({ OPENAI_API_KEY: 'sk-server', OPENAI_BASE_URL: provider.baseUrl })
  const app = await createApp({ agencies, logLevel: 'silent' }, config)
  await sharePort(app, platform)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  const { ownerId, key } = await platform.addTenant('Travel Ltd')
  const integrationId = await platform.addIntegration(ownerId, { name: 'Travel desk', memberAllowancesEnabled: true })
  const client = new TestClient({ url, token: key.token, ownerId, integrationId })
  await seedRecords(platform, client)
  const ofPlatform = await askPlatform(provider, client)
  const ofServer = await askServer(provider, url)
  return {
    url,
    provider,
    signedIn: { platform: key.token, operator: OPERATOR_KEY },
    ids: { ...ofServer, ...ofPlatform, integration: integrationId },
    close: async () => {
      app.server.closeAllConnections()
      await app.close()
      await platform.close()
      await provider.close()
    },
  }
}

async function askServer(provider: FakeProvider, url: string): Promise<Record<'run' | 'other' | 'failed', string>> {
  const ask = (message: string): Promise<Response> =>
    fetch(`${url}/travel/get_response`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ message }),
    })
  provider.script([...WEATHER_IN_PARIS, text('It is sunny in Paris.')])
  await ask('What is the weather in Paris?')
  await ask('What is the weather in Paris?')
  provider.script([WRONG_KEY])
  await ask('Book a room for two nights.')
  const { runs } = (await (await fetch(`${url}/console/runs`)).json()) as { runs: readonly { run_id: string }[] }
  const [failed, other, run] = runs.map(({ run_id: id }) => id)
  return { run: run!, other: other!, failed: failed! }
}

async function askPlatform(
  provider: FakeProvider,
  client: TestClient,
): Promise<Record<'chat' | 'platformRun', string>> {
  const ask = async (consumerId: string, message: string, script: readonly Turn[]): Promise<string> => {
    provider.script(script)
    const usageRequestId = `${consumerId}: ${message}`
    const { stream } = await client.completeWhole({
      message,
      consumerId,
      usageRequestId,
      aliasChatId: `${consumerId}-trip`,
    })
    return stream.runId
  }
  const platformRun = await ask('ada', 'What is the weather in Paris?', WEATHER_IN_PARIS)
  await ask('ada', 'And tomorrow?', [text('Tomorrow it **rains** from noon.')])
  await ask('linus', 'Which museum is open today?', [WRONG_KEY])
  await ask('grace', 'Book two nights at the Ritz, please.', [
    toolCall('book_hotel', { hotel: 'Ritz', nights: 2 }, { callId: 'call_ritz' }),
  ])
  const [chat] = (await client.get('/v1/chats?consumerId=ada&limit=1')).body.data
  return { chat: chat.chatId, platformRun }
}

const CONSUMERS = ['chats.created_by_consumer', 'runs.consumer_id', 'members.consumer_id', 'usage_deltas.consumer_id']

/** Half a year of history, and one or more of everything that an owner has. */
async function seedRecords(
  { rows, dataFolder }: Pick<Awaited<ReturnType<typeof startPlatform>>, 'rows' | 'dataFolder'>,
  client: TestClient,
): Promise<void> {
  const { ownerId, integrationId } = client
  const member = (consumerId: string, displayName: string, allowance: object) =>
    client.post(`/v1/integrations/${integrationId}/members`, { consumerId, displayName, allowance })
  await seedHistory(rows, { ownerId, integrationId, runs: 400 })
  for (const [n, name] of ['hedy', 'alan', 'rosalind', 'tim'].entries()) {
    for (const column of CONSUMERS) {
      const [table, field] = column.split('.')
      await rows(`UPDATE ${table} SET ${field} = '${name}' WHERE ${field} = '${seededConsumer(n)}'`)
    }
  }
  await rows(`UPDATE chats SET alias = 'trip-' || right(id, 3)`)
  await rows(`UPDATE runs SET agent = 'Concierge'`)
  await rows(`UPDATE usage_deltas SET cost_usd = cost_usd * (60 + 37 * (extract(day FROM begins_at)::int % 11)),
    input_tokens = input_tokens * 90, output_tokens = output_tokens * 40`)
  await rows(`UPDATE integrations SET name = 'Page of partner ' || right(id, 1) WHERE id <> '${integrationId}'`)
  await member('ada', 'Ada Lovelace', { messages: 3, costUsd: 5 })
  await member('grace', 'Grace Hopper', { messages: 20, tokens: 100_000 })
  await member('linus', 'Linus Pauling', { messages: 5 })
  await member('margaret', 'Margaret Hamilton', { messages: 100 })
  await client.post('/v1/api_keys', { name: 'Back end', scopes: ['runs', 'chats:read', 'consumer_tokens'] })
  await client.post('/v1/api_keys', { name: 'Billing', scopes: ['usage:read'], expiresAt: '2099-01-01T00:00:00Z' })
  await client.post('/v1/webhook_endpoints', {
    url: 'https://hooks.example.com/bureau',
    events: ['run.cancelled', 'run.approval_expired', 'api_key.revoked'],
  })
  for (const consumerId of ['linus', 'margaret']) {
    await client.post('/v1/consumer_tokens/revoke', { apiIntegrationId: integrationId, consumerId })
  }
  const folder = path.join(dataFolder, 'mounts', ownerId, integrationId, 'guides')
  mkdirSync(folder, { recursive: true })
  for (const city of ['lisbon', 'paris', 'vienna']) {
    writeFileSync(path.join(folder, `${city}.md`), `# ${city}\n`.repeat(900))
  }
}
