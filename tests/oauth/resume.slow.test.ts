import { expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { Browser } from './support/browser.ts'
import { startAnotherServer, startOAuthSetUp, untilRedirect } from './support/oauth-set-up.ts'

test('a server that does not answer holds up the runs of those who are signed in for seconds only', async () => {
  const setUp = await startOAuthSetUp()
  const first = await setUp.run('ada')
  await new Browser().signIn((await untilRedirect(first)).auth_url, 'ada')
  await first.all()
  setUp.notes.hang()
  const other = await startAnotherServer(setUp)
  other.server.provider.respond(() => text('without notes'))

  const startedAt = performance.now()
  const stream = await (await other.run('ada')).all()
  expect(stream.text).toContain('without notes')
  expect(performance.now() - startedAt).toBeLessThan(15_000)
  expect(other.server.provider.modelRequests[0]?.toolNames).toEqual(['authenticate_mcp_server'])
})
