import { describe, expect, test } from 'vitest'
import { startPlatform } from '../platform/support/test-platform.ts'
import { closeAfterTest, soloAgency, startTestServer } from '../support/test-server.ts'
import { canBrowse, consoleBrowser } from './support/console-page.ts'

describe('GET /console/settings', () => {
  test('200 says what is in force, and nothing secret', async () => {
    const server = await startTestServer({
      agencies: soloAgency(),
      maxConcurrentRuns: 7,
      mcp: false,
      egress: { allow: ['10.1.0.0/16'], deny: ['203.0.113.9'] },
      env: { BUREAU_ALLOWED_HOSTS: 'localhost:11434', BUREAU_SECRET: 's'.repeat(40), APP_TOKEN: 'the-token' },
    })

    const refused = await server.get('/console/settings')
    const { status, body, text } = await server.get('/console/settings', { authorization: 'Bearer the-token' })

    expect([refused.status, status]).toEqual([401, 200])
    expect(body.limits).toContainEqual({
      name: 'maxConcurrentRuns',
      about: 'Runs and voice sessions at once',
      value: 7,
      unit: 'runs',
    })
    expect(body.features.find(({ name }: { name: string }) => name === 'mcp').on).toBe(false)
    expect(body.egress).toEqual({ allow: ['localhost:11434', '10.1.0.0/16'], deny: ['203.0.113.9'] })
    expect(text).not.toMatch(/the-token|ssss|sk-server/)
  })

  test('404 where every caller is one of the users, and where there is no console', async () => {
    const users = await startTestServer({ agencies: soloAgency(), authenticate: () => ({ id: 'ada' }) })
    const bare = await startTestServer({ agencies: soloAgency(), console: false })

    const answers = await Promise.all([users, bare].map((server) => server.get('/console/settings')))

    expect(answers.map(({ status }) => status)).toEqual([404, 404])
  })
})

describe.each(['pglite', 'postgres'] as const)('GET /v1/settings on %s', (engine) => {
  test('200 has limits and processes for owners, and counts the hosts that the operator has named', async () => {
    const platform = await startPlatform(engine, { config: { allowedHosts: ['secret.corp.example'] } })
    closeAfterTest(() => platform.close())
    const client = await platform.client()
    const { token } = (await client.post('/v1/api_keys', { name: 'runs only', scopes: ['runs'] })).body

    const { status, body, text } = await client.get('/v1/settings')
    const refused = await client.with({ token }).get('/v1/settings')

    expect([status, refused.status]).toEqual([200, 403])
    expect(body.replicas).toMatchObject([{ state: 'live', activeRuns: 0, answers: true, version: '0.1.0' }])
    expect(body.egress).toEqual({ exceptions: 1, attachmentPorts: [443] })
    expect(text).not.toContain('secret.corp')
  })
})

describe.skipIf(!canBrowse)('the settings page', () => {
  const open = consoleBrowser()

  test('shows the limits in force and the egress rules of a server', async () => {
    const server = await startTestServer({ agencies: soloAgency(), egress: { allow: ['10.1.0.0/16'] } })
    const { page, barriers, complaints } = await open(server.url, { at: '/settings' })

    const card = page.getByRole('region', { name: 'Self-hosted server' })
    await card.getByText('10.1.0.0/16').waitFor()
    await page.getByText('Agency solo: 1 agent on gpt-test.').waitFor()

    expect(await card.getByText('Largest request body').locator('..').innerText()).toContain('34 MB')
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test('shows the processes of a platform, on a phone', async () => {
    const platform = await startPlatform('pglite')
    closeAfterTest(() => platform.close())
    const { token } = await platform.client()
    const { page, barriers, complaints } = await open(platform.url, {
      signedIn: { platform: token },
      at: '/settings',
      viewport: { width: 360, height: 720 },
      colorScheme: 'dark',
    })

    await page.getByRole('region', { name: 'Processes' }).getByText('answers you').waitFor()

    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })
})
