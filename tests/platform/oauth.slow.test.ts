import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { Browser } from '../oauth/support/browser.ts'
import { startIdentityProvider } from '../oauth/support/identity-provider.ts'
import { notesTurn, signInStatuses, toolOutputs, untilRedirect } from '../oauth/support/oauth-set-up.ts'
import { startProtectedToolServer } from '../oauth/support/protected-tool-server.ts'
import { startPublicAddress } from '../oauth/support/public-address.ts'
import { TEST_REDIS_URL, testRedisReachable } from '../support/test-redis.ts'
import { type BureauProcess, startBureau } from '../support/bureau-process.ts'
import { startFakeProvider } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { startSignInPlatform } from './support/sign-in-platform.ts'
import { TestClient } from './support/test-client.ts'
import { ENGINES } from './support/test-platform.ts'

const FILE = fileURLToPath(new URL('support/notes-agency.ts', import.meta.url))

test('kill -9 while a user signs in: its callback is refused, and the run goes on and asks anew', async () => {
  const idp = await startIdentityProvider()
  const notes = await startProtectedToolServer(idp)
  const address = await startPublicAddress()
  const provider = await startFakeProvider()
  closeAfterTest(() => provider.close())
  provider.respond((request) => notesTurn(request))
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-oauth-'))
  closeAfterTest(async () => rmSync(folder, { recursive: true, force: true }))
  const start = async (): Promise<{ bureau: BureauProcess; client: TestClient }> => {
    const bureau = await startBureau(['start', FILE], {
      BUREAU_DATA: folder,
      OPENAI_API_KEY: 'sk',
      OPENAI_BASE_URL: provider.baseUrl,
      NOTES_URL: notes.url,
      OAUTH_CALLBACK_URL: address.callbackUrl,
      BUREAU_ALLOWED_HOSTS: idp.host,
      HOME: folder,
    })
    address.forwardTo(bureau.url)
    const { apiKey, ownerId, apiIntegrationId } = JSON.parse(
      readFileSync(path.join(folder, 'credentials.json'), 'utf8'),
    )
    return {
      bureau,
      client: new TestClient({ url: bureau.url, token: apiKey, ownerId, integrationId: apiIntegrationId }),
    }
  }
  const killed = await start()
  const stream = await killed.client.complete()
  const { auth_url: authUrl } = await untilRedirect(stream)
  const browser = new Browser()
  const callbackUrl = await browser.callbackUrl(authUrl, 'ada')
  const broken = stream.all().catch(() => 'broken')
  killed.bureau.child.kill('SIGKILL')
  expect(await broken).toBe('broken')

  const { client } = await start()
  expect((await browser.get(callbackUrl)).status).toBe(400)
  const followed = await client.follow(stream.runId)
  const { auth_url: newUrl } = await untilRedirect(followed, authUrl)
  expect((await new Browser().signIn(newUrl, 'ada')).status).toBe(200)
  await followed.all()
  expect(followed.result.status).toBe('completed')
  expect(toolOutputs(followed).at(-1)).toContain('Notes of ada')
})

const scaled = ENGINES.includes('postgres') && (await testRedisReachable())

test.runIf(scaled)(
  'a process that is killed while a user signs in: the callback is refused, and another one goes on and asks anew',
  async () => {
    const { platform, idp, notes, address } = await startSignInPlatform('postgres', {
      config: { redisUrl: TEST_REDIS_URL },
    })
    const { databaseUrl, masterKey, dataFolder } = platform.shared
    const killed = await startBureau(['platform', FILE], {
      DATABASE_URL: databaseUrl,
      PLATFORM_MASTER_KEY: Buffer.from(masterKey).toString('hex'),
      PLATFORM_ID: 'test',
      BUREAU_DATA: dataFolder,
      REDIS_URL: TEST_REDIS_URL,
      OPENAI_API_KEY: 'sk',
      OPENAI_BASE_URL: platform.provider.baseUrl,
      NOTES_URL: notes.url,
      OAUTH_CALLBACK_URL: address.callbackUrl,
      BUREAU_ALLOWED_HOSTS: idp.host,
    })
    const client = await platform.client()
    const stream = await client.with({ url: killed.url }).complete()
    const { auth_url: authUrl } = await untilRedirect(stream)
    const browser = new Browser()
    const callbackUrl = await browser.callbackUrl(authUrl, 'ada')
    const broken = stream.all().catch(() => 'broken')
    killed.child.kill('SIGKILL')
    expect(await broken).toBe('broken')

    const followed = await client.follow(stream.runId)
    const { auth_url: newUrl } = await untilRedirect(followed, authUrl)
    const answer = await browser.get(callbackUrl)
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ error: expect.stringContaining('not awaited any more') })
    expect(idp.tokenRequests).toEqual([])

    expect((await new Browser().signIn(newUrl, 'ada')).status).toBe(200)
    await followed.all()
    expect(followed.result.status).toBe('completed')
    expect(toolOutputs(followed).at(-1)).toContain('Notes of ada')
  },
)

test.runIf(scaled)(
  'a run that waits for longer than a dead process is given keeps its life, and its stream stays open',
  async () => {
    const first = await startSignInPlatform('postgres', { config: { redisUrl: TEST_REDIS_URL } })
    await first.startAnother()
    const client = await first.platform.client()
    const stream = await client.complete()
    const { auth_url: authUrl } = await untilRedirect(stream)
    // Others declare a process dead after 40 seconds without a sign of life.
    await sleep(50_000)
    expect((await client.get(`/v1/runs/${stream.runId}`)).body.status).toBe('running')
    await new Browser().signIn(authUrl, 'ada')
    await stream.all()

    expect(stream.text.match(/^: keepalive \d+$/gm)?.length).toBeGreaterThanOrEqual(3)
    expect(signInStatuses(stream)).toEqual(['pending', 'authorized'])
    expect(stream.result.status).toBe('completed')
    expect(await first.platform.violations()).toEqual([])
  },
)
