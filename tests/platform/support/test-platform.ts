import type { AddressInfo } from 'node:net'
import { Agency, Agent } from '@bureau/framework'
import { type Engine, openTestPlatform, type TestPlatform, type TestPlatformOptions } from '@bureau/platform/testing'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { runEnvironment } from '../../support/run-environment.ts'
import { type FakeProvider, startFakeProvider } from '../../support/fake-provider.ts'
import { closeAfterTest } from '../../support/test-server.ts'
import { TestClient } from './test-client.ts'

export { ENGINES } from '@bureau/platform/testing'

export type Served = TestPlatform & {
  readonly url: string
  readonly provider: FakeProvider
  /** A client of a new owner, with an integration of the agency `shop`. */
  client(settings?: Parameters<TestPlatform['addIntegration']>[1]): Promise<TestClient>
}

/** The entry points are CEO and Clerk; the CEO may message the Clerk. */
export function shopAgency(): Agency {
  const clerk = new Agent({ name: 'Clerk', description: 'Knows the stock.', instructions: 'Help.', model: 'gpt-test' })
  const ceo = new Agent({ name: 'CEO', instructions: 'You are the secret instructions.', model: 'gpt-test' })
  return new Agency({ name: 'Shop', entryPoint: [ceo, clerk], flows: [[ceo, clerk]] })
}

/** A platform on a loopback port with a stand-in model provider, for all tests of a block. */
export function servePlatform(engine: Engine, options: Partial<TestPlatformOptions> = {}): Served {
  const served = {} as Served
  beforeAll(async () => {
    Object.assign(served, await startPlatform(engine, options))
  })
  beforeEach(() => served.provider.respond(() => undefined))
  afterAll(() => served.close())
  return served
}

/** The last test of a block. */
export function testRecords(platform: Served): void {
  test('what the records promise holds', async () => {
    expect(await platform.violations()).toEqual([])
  })
}

/** Two processes of one installation on PostgreSQL, until the end of the test; each has a port and a model provider of its own. */
export async function startTwoPlatforms(options: Partial<TestPlatformOptions>): Promise<[Served, Served]> {
  const first = await startPlatform('postgres', options)
  const second = await startPlatform('postgres', { ...options, beside: first.shared })
  closeAfterTest(async () => {
    await second.close()
    await first.close()
  })
  return [first, second]
}

export async function startPlatform(
  engine: Engine,
  options: Partial<TestPlatformOptions> = {},
  { listen }: { readonly listen: boolean } = { listen: true },
): Promise<Served> {
  const provider = await startFakeProvider()
  const platform = await openTestPlatform(engine, {
    agencies: { shop: shopAgency() },
    environment: runEnvironment({ baseUrl: provider.baseUrl, apiKey: 'sk-platform', defaultModel: 'gpt-test' }),
    ...options,
  })
  if (listen) await platform.app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = (platform.app.server.address() ?? { port: 0 }) as AddressInfo
  const url = `http://127.0.0.1:${port}`
  return {
    ...platform,
    url,
    provider,
    close: async () => {
      await platform.close()
      await provider.close()
    },
    client: async (settings) => {
      const { ownerId, key } = await platform.addTenant()
      const integrationId = await platform.addIntegration(ownerId, settings)
      return new TestClient({ url, token: key.token, ownerId, integrationId })
    },
  }
}
