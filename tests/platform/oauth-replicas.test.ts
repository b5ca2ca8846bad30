import { describe, expect, test } from 'vitest'
import { oauthFrames, signInStatuses, toolOutputs, untilRedirect } from '../oauth/support/oauth-set-up.ts'
import { Browser } from '../oauth/support/browser.ts'
import { TEST_REDIS_URL, testRedisReachable } from '../support/test-redis.ts'
import { type SignInPlatform, startSignInPlatform } from './support/sign-in-platform.ts'
import { ENGINES, type Served } from './support/test-platform.ts'

/** Two processes of one installation; browsers come back to the second. */
async function startTwo(): Promise<SignInPlatform & { readonly other: Served }> {
  const first = await startSignInPlatform('postgres', { config: { redisUrl: TEST_REDIS_URL } })
  const other = await first.startAnother()
  first.address.forwardTo(other.url)
  return { ...first, other }
}

describe.skipIf(!ENGINES.includes('postgres') || !(await testRedisReachable()))('sign-ins over two processes', () => {
  test('a callback that arrives at the other process completes the sign-in; both have the tokens', async () => {
    const { platform, other } = await startTwo()
    const here = await platform.client()
    const there = here.with({ url: other.url })
    const stream = await here.complete()
    const followed = await there.follow(stream.runId)
    const { state, auth_url: authUrl } = await untilRedirect(followed)

    const answer = await new Browser().signIn(authUrl, 'ada@idp')
    await Promise.all([stream.all(), followed.all()])

    expect(await answer.json()).toEqual({ status: 'ok', state, server_name: 'notes' })
    expect(signInStatuses(stream)).toEqual(['pending', 'authorized'])
    expect(followed.frames.slice(1)).toEqual(stream.frames.slice(1))
    const next = await there.completeWhole()
    expect(oauthFrames(next.stream)).toEqual([])
    expect(toolOutputs(next.stream).at(-1)).toContain('Notes of ada@idp')
  })

  test('processes that refresh at once use the refresh token once', async () => {
    const { platform, other, idp, notes } = await startTwo()
    const here = await platform.client()
    const there = here.with({ url: other.url })
    const stream = await here.complete()
    await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
    await stream.all()
    notes.expireAccessTokens()

    const runs = await Promise.all([here, there, here, there].map((client) => client.completeWhole()))
    for (const { stream: each } of runs) {
      expect(oauthFrames(each)).toEqual([])
      expect(toolOutputs(each).at(-1)).toContain('Notes of ada')
    }
    expect(idp.tokenRequests.filter((request) => request.get('grant_type') === 'refresh_token')).toHaveLength(1)
  })

  test('a cancel at the other process ends the wait, and the late callback is refused there', async () => {
    const { platform, other } = await startTwo()
    const here = await platform.client()
    const there = here.with({ url: other.url })
    const stream = await here.complete()
    const { auth_url: authUrl } = await untilRedirect(stream)
    const browser = new Browser()
    const callbackUrl = await browser.callbackUrl(authUrl, 'ada')

    await there.post(`/v1/runs/${stream.runId}/cancel`)
    await stream.all()

    expect(stream.result.status).toBe('cancelled')
    expect((await browser.get(callbackUrl)).status).toBe(400)
    expect(await platform.violations()).toEqual([])
  })
})
