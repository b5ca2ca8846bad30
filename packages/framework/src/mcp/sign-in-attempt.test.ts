import { expect, test } from 'vitest'
import { MCPServerOAuth, settingsOf } from '../agency/oauth-server.ts'
import { SignInAttempt } from './sign-in-attempt.ts'
import type { TokenStore } from '../tokens/token-store.ts'

const SERVER = 'https://notes.example.com/mcp'
const PROVIDER = 'https://login.example.com'

const EMPTY: TokenStore = {
  load: async () => ({}),
  save: async () => {},
  delete: async () => {},
  exclusive: (_key, work) => work(),
}

/** An attempt at a provider whose metadata differs by `changes`. */
function attemptAt(changes: Record<string, unknown>): SignInAttempt {
  const metadata = {
    issuer: PROVIDER,
    authorization_endpoint: `${PROVIDER}/authorize`,
    token_endpoint: `${PROVIDER}/token`,
    registration_endpoint: `${PROVIDER}/register`,
    response_types_supported: ['code'],
    code_challenge_methods_supported: ['S256'],
    ...changes,
  }
  const answers: Record<string, object> = {
    'https://notes.example.com/.well-known/oauth-protected-resource/mcp': {
      resource: SERVER,
      authorization_servers: [PROVIDER],
    },
    [`${PROVIDER}/.well-known/oauth-authorization-server`]: metadata,
    [`${PROVIDER}/register`]: { client_id: 'client-1', redirect_uris: ['http://localhost:8000/auth/callback'] },
  }
  return new SignInAttempt({
    settings: settingsOf(new MCPServerOAuth({ name: 'notes', url: SERVER }), () => undefined),
    store: EMPTY,
    key: { userId: 'ada', server: 'notes' },
    fetch: async (url) => {
      const answer = answers[String(url)]
      return answer ? Response.json(answer) : new Response('', { status: 404 })
    },
    now: () => 0,
  })
}

test.each([
  ['a slash at the end', `${PROVIDER}/`, / \(they differ only by a slash at the end; authServerUrl can be declared/],
  ['more', 'https://other.example.com', /found under$/],
])('a provider whose issuer differs by %s is not used, and that is said', async (_what, issuer, says) => {
  const failure = attemptAt({ issuer }).begin({})
  await expect(failure).rejects.toMatchObject({ name: 'SignInFailed', reason: 'issuer_mismatch' })
  await expect(failure).rejects.toThrow(/^the provider names another issuer than the one that it was/)
  await expect(failure).rejects.toThrow(says)
  const { cause } = (await failure.catch((error: unknown) => error)) as Error
  expect(String(cause)).toContain(`expected "${PROVIDER}", received "${issuer}"`)
})

test('a user of an https server is never sent to a sign-in page that is not https', async () => {
  const attempt = attemptAt({ authorization_endpoint: 'http://login.example.com/authorize' })
  await expect(attempt.begin({})).rejects.toThrow('the sign-in page is not https: http://login.example.com')
  expect(attempt.authorizationUrl).toBeUndefined()
})
