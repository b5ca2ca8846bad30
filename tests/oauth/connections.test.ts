import {
  Agency,
  Agent,
  type CredentialsKey,
  MCPServerOAuth,
  type StoredCredentials,
  type TokenStore,
} from '@bureau/framework'
import { expect, test } from 'vitest'
import { Browser } from './support/browser.ts'
import { oauthFrames, startAnotherServer, startOAuthSetUp, toolOutputs, untilRedirect } from './support/oauth-set-up.ts'

test('concurrent runs of one user share a connection, and others never get it', async () => {
  const setUp = await startOAuthSetUp()
  for (const user of ['ada', 'eve']) {
    const stream = await setUp.run(user)
    await new Browser().signIn((await untilRedirect(stream)).auth_url, `${user}@idp`)
    await stream.all()
  }
  const users = Array.from({ length: 12 }, (_, index) => (index % 2 ? 'ada' : 'eve'))
  const streams = await Promise.all(users.map((user) => setUp.run(user)))
  for (const [index, stream] of streams.entries()) {
    await stream.all()
    expect(toolOutputs(stream).at(-1)).toContain(`Notes of ${users[index]}@idp`)
  }
})

test('a server that stops closes its connections to tool servers', async () => {
  const setUp = await startOAuthSetUp()
  const { server, run } = await startAnotherServer(setUp)
  setUp.address.forwardTo(server.url)
  const stream = await run('ada')
  await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
  await stream.all()
  expect(await setUp.notes.connections()).toBeGreaterThan(0)
  await server.close()
  await expect.poll(() => setUp.notes.connections()).toBe(0)
})

/** Keeps everything in a map, as an application's own storage would keep it in its database. */
class MapTokenStore implements TokenStore {
  readonly entries = new Map<string, StoredCredentials>()
  #last: Promise<unknown> = Promise.resolve()

  async load(key: CredentialsKey): Promise<StoredCredentials> {
    return this.entries.get(JSON.stringify(key)) ?? {}
  }

  async save(key: CredentialsKey, credentials: StoredCredentials): Promise<void> {
    this.entries.set(JSON.stringify(key), credentials)
  }

  async delete(key: CredentialsKey): Promise<void> {
    this.entries.delete(JSON.stringify(key))
  }

  exclusive<Result>(_key: CredentialsKey, work: () => Promise<Result>): Promise<Result> {
    const mine = this.#last.then(work)
    this.#last = mine.catch(() => {})
    return mine
  }
}

test.each(['storage', 'storageFactory'] as const)(
  '%s of the declaration keeps the tokens instead of folders',
  async (how) => {
    const store = new MapTokenStore()
    const made: string[] = []
    const storageFactory = (name: string): TokenStore => {
      made.push(name)
      return store
    }
    const setUp = await startOAuthSetUp({ oauth: how === 'storage' ? { storage: store } : { storageFactory } })
    for (const asked of [true, false]) {
      const stream = await setUp.run('ada')
      if (asked) await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
      await stream.all()
      expect(oauthFrames(stream).length > 0).toBe(asked)
    }
    expect([...store.entries.keys()].map((key) => JSON.parse(key))).toEqual([
      { userId: 'ada', server: expect.stringMatching(/^notes-[0-9a-f]{16}$/) },
    ])
    const [saved] = store.entries.values()
    expect(saved).toMatchObject({
      tokens: { access_token: expect.any(String), refresh_token: expect.any(String), issuer: setUp.idp.issuer },
      client: { client_id: expect.any(String), issuer: setUp.idp.issuer },
      expiresAt: expect.any(Number),
    })
    expect(made).toEqual(how === 'storage' ? [] : ['notes'])
  },
)

test('a declared authorization server is used, whatever the tool server says', async () => {
  const elsewhere = await startOAuthSetUp({ metadataHost: 'localhost' })
  const { idp, notes, address } = elsewhere
  const options = { name: 'notes', url: notes.url, redirectUri: address.callbackUrl, authServerUrl: idp.issuer }
  const solo = new Agent({ name: 'Solo', model: 'gpt-test', mcpServers: [new MCPServerOAuth(options)] })
  const pinned = await startAnotherServer({ ...elsewhere, agency: new Agency({ entryPoint: solo }) }, { egress: {} })
  address.forwardTo(pinned.server.url)

  const stream = await pinned.run('ada')
  await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
  await stream.all()
  expect(toolOutputs(stream).at(-1)).toContain('Notes of ada')
})

test('handlers of the declaration replace the flow of the server: nothing is asked in the stream', async () => {
  const browser = new Browser()
  let authorizationUrl = ''
  const setUp = await startOAuthSetUp({
    oauth: {
      redirectHandler: (url) => void (authorizationUrl = url.href),
      callbackHandler: async () => new URL(await browser.callbackUrl(authorizationUrl, 'ada')).searchParams,
    },
  })
  const stream = await (await setUp.run('ada')).all()
  expect(oauthFrames(stream)).toEqual([])
  expect(toolOutputs(stream).at(-1)).toContain('Notes of ada')
})

test.each([
  { what: 'another state', query: 'code=c&state=other', says: 'the answer belongs to another sign-in' },
  { what: 'an error', query: 'error=access_denied', says: 'the sign-in was refused (access_denied)' },
])('a callback handler that brings $what fails the sign-in', async ({ query, says }) => {
  const setUp = await startOAuthSetUp({
    oauth: { redirectHandler: () => {}, callbackHandler: async () => new URLSearchParams(query) },
  })
  const stream = await (await setUp.run('ada')).all()
  expect(toolOutputs(stream)).toEqual([`Failed to authenticate "notes": ${says}.`])
  expect(setUp.idp.tokenRequests).toEqual([])
})
