import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Agency, Agent } from '@bureau/framework'
import { ensureFirstOwner, type FirstCredentials } from '@bureau/platform'
import { beforeAll, describe, expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { type Json, TestClient } from './support/test-client.ts'
import { ENGINES, type Served, servePlatform, shopAgency, startPlatform } from './support/test-platform.ts'

const shop = shopAgency()
const travel = shopAgency()

describe.each(ENGINES)('the first start on %s', (engine) => {
  const platform = servePlatform(engine, { agencies: { shop } })

  test('in a folder that was used with another database, keeps the credentials of that one', async () => {
    const { dataFolder } = platform.platform.config
    const file = (name: string): string => path.join(dataFolder, name)
    const others = JSON.stringify({ apiKey: 'the only copy', ownerId: 'own_other' }, null, 2)
    await writeFile(file('credentials.json'), others)

    const made = await ensureFirstOwner(platform.platform)

    expect(await readFile(file('credentials.own_other.json'), 'utf8')).toBe(others)
    expect(JSON.parse(await readFile(file('credentials.json'), 'utf8'))).toEqual(made)
  })
})

/** Starts of one installation, with other agencies each time. */
describe.runIf(ENGINES.includes('postgres'))('agencies that come and go between starts', () => {
  const first = servePlatform('postgres', { agencies: { shop } })
  let credentials: FirstCredentials
  beforeAll(async () => {
    credentials = (await ensureFirstOwner(first.platform))!
  })

  async function startWith(
    agencies: NonNullable<Parameters<typeof startPlatform>[1]>['agencies'] & object,
  ): Promise<{ platform: Served; client: TestClient }> {
    const platform = await startPlatform('postgres', { agencies, beside: first.shared })
    closeAfterTest(async () => {
      platform.app.server.closeAllConnections()
      await platform.app.close()
      await platform.provider.close()
    })
    platform.provider.respond(() => text('Hello.'))
    const { apiKey, ownerId, apiIntegrationId } = credentials
    const client = new TestClient({ url: platform.url, token: apiKey, ownerId, integrationId: apiIntegrationId })
    return { platform, client }
  }

  const listed = async (client: TestClient): Promise<Json[]> => (await client.get('/v1/integrations')).body.data
  const agenciesOf = async (client: TestClient): Promise<string[]> =>
    (await listed(client)).map(({ agencyId }): string => agencyId).toSorted()

  test('an agency that is new becomes an integration of the first owner, once, however many processes start', async () => {
    const starts = await Promise.all([startWith({ shop, travel }), startWith({ shop, travel })])
    const { client } = starts[0]

    const made = await Promise.all(starts.map(({ platform }) => ensureFirstOwner(platform.platform)))

    expect(made).toEqual([undefined, undefined])
    expect(await agenciesOf(client)).toEqual(['shop', 'travel'])
    const { apiIntegrationId } = (await listed(client)).find(({ agencyId }) => agencyId === 'travel')
    expect((await client.with({ integrationId: apiIntegrationId }).completeWhole()).stream.spoken).toBe('Hello.')
  })

  test('credentials.json has an integration that answers, also when the agency of the first one is gone', async () => {
    const kept = async (agencies: Parameters<typeof startWith>[0]): Promise<FirstCredentials> => {
      const { platform } = await startWith(agencies)
      await ensureFirstOwner(platform.platform)
      return JSON.parse(await readFile(path.join(platform.dataFolder, 'credentials.json'), 'utf8'))
    }
    expect(await kept({ travel, shop })).toEqual(credentials)
    expect(await kept({})).toEqual(credentials)

    const other = await kept({ travel })

    const { client } = await startWith({ travel })
    const { apiIntegrationId } = (await listed(client)).find(({ agencyId }) => agencyId === 'travel')
    expect(other).toEqual({ ...credentials, apiIntegrationId })
    expect((await client.with({ integrationId: apiIntegrationId }).completeWhole()).status).toBe(200)
  })

  test('a run names the version of the agency that it ran with', async () => {
    const run = async (agency: Agency): Promise<string> => {
      const { client } = await startWith({ shop: agency })
      const { stream } = await client.completeWhole()
      const { agencyVersion } = (await client.get(`/v1/runs/${stream.runId}`)).body
      expect((await client.get('/v1/runs?limit=1')).body.data[0]).toMatchObject({ agencyVersion })
      expect((await client.get('/v1/agencies')).body.data[0]).toMatchObject({ version: agencyVersion })
      return agencyVersion
    }
    const clerk = new Agent({ name: 'CEO', instructions: 'Be brief.', model: 'gpt-test' })

    const versions = [await run(shop), await run(shopAgency()), await run(new Agency({ entryPoint: clerk }))]

    expect(versions[0]).toMatch(/^[0-9a-f]{16}$/)
    expect(versions[1]).toBe(versions[0])
    expect(versions[2]).not.toBe(versions[0])
  })

  test('what its owner has deleted does not come back, and other owners get nothing', async () => {
    const { platform, client } = await startWith({ shop, travel })
    await ensureFirstOwner(platform.platform)
    const { apiIntegrationId } = (await listed(client)).find(({ agencyId }) => agencyId === 'travel')
    await client.call('DELETE', `/v1/integrations/${apiIntegrationId}`)

    await ensureFirstOwner(platform.platform)

    expect(await agenciesOf(client)).toEqual(['shop'])
    const other = await platform.client()
    expect(await listed(other)).toHaveLength(1)
  })

  test('an integration whose agency is gone says so, and every route that needs the agency answers alike', async () => {
    const { client } = await startWith({ travel })
    const integration = `/v1/integrations/${client.integrationId}`

    expect((await client.get(integration)).body).toMatchObject({ agencyId: 'shop', agencyDeployed: false, agents: [] })
    const listing = (await listed(client)).find(({ apiIntegrationId }) => apiIntegrationId === client.integrationId)
    expect(listing).toMatchObject({ agencyDeployed: false, agents: [] })
    const answers = [
      await client.completeWhole(),
      await client.completeWhole({ agent: 'Clerk' }),
      await client.call('PATCH', integration, { defaultAgent: 'CEO' }),
      await client.call('PATCH', integration, { agencyId: 'shop' }),
      await client.post('/v1/integrations', { name: 'again', agencyId: 'shop' }),
      await client.post('/create_agency_upload', { apiIntegrationId: client.integrationId, name: 'a.csv', size: 1 }),
    ]
    for (const { status, body } of answers) {
      expect([status, body.code, body.error]).toEqual([400, 'unknown_agency', answers[0]!.body.error])
    }
    expect(answers[0]!.headers.get('x-agent-run-admitted')).toBe('false')

    expect((await client.call('PATCH', integration, { name: 'Still mine' })).body).toMatchObject({ name: 'Still mine' })
    const moved = await client.call('PATCH', integration, { agencyId: 'travel' })
    expect(moved.body).toMatchObject({ agencyDeployed: true, agents: ['CEO', 'Clerk'] })
    expect((await client.completeWhole()).status).toBe(200)
  })
})
