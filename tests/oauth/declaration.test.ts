import { expect, test } from 'vitest'
import { text, toolCall } from '../support/fake-provider.ts'
import { Browser } from './support/browser.ts'
import { type SetUpOptions, startOAuthSetUp, toolOutputs, untilRedirect } from './support/oauth-set-up.ts'

type Registered = Record<string, unknown> | undefined

async function registrationOf(oauth: NonNullable<SetUpOptions['oauth']>): Promise<Registered> {
  const setUp = await startOAuthSetUp({ oauth })
  const stream = await setUp.run('ada')
  await untilRedirect(stream)
  await stream.hangUp()
  return setUp.idp.registrations[0]
}

test('a client registers under a name that says what it is, for codes and refreshes', async () => {
  expect(await registrationOf({})).toMatchObject({
    client_name: 'Bureau (notes)',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    redirect_uris: [expect.stringMatching(/\/auth\/callback$/)],
  })
})

test('client metadata of the declaration wins over what is built, member by member', async () => {
  const clientMetadata = { client_name: 'Office', client_uri: 'https://office.example' }
  expect(await registrationOf({ clientMetadata })).toMatchObject({
    ...clientMetadata,
    grant_types: ['authorization_code', 'refresh_token'],
  })
})

test('a tool filter leaves the other tools out', async () => {
  const setUp = await startOAuthSetUp({ oauth: { toolFilter: { allowedToolNames: ['read_notes'] } } })
  const stream = await setUp.run('ada')
  await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
  await stream.all()
  expect(setUp.server.provider.modelRequests.at(-1)?.toolNames).toEqual(['read_notes', 'authenticate_mcp_server'])
})

test('a call that takes longer than the declaration allows fails with a sentence, and the run goes on', async () => {
  const setUp = await startOAuthSetUp({ oauth: { toolTimeoutMs: 200 }, offered: ['read_notes', 'hang_forever'] })
  setUp.server.provider.respond((request) => {
    if (request.toolOutputs.length === 0) return toolCall('authenticate_mcp_server', { server_name: 'notes' })
    return request.toolOutputs.length === 1 ? toolCall('hang_forever', {}) : text('done')
  })
  const stream = await setUp.run('ada')
  await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
  await stream.all()
  expect(toolOutputs(stream).at(-1)).toMatch(/^Error: /)
  expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
})
