import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { closeAfterTest, type Json } from '../support/test-server.ts'
import { Browser } from './support/browser.ts'
import { asUser, startOAuthSetUp } from './support/oauth-set-up.ts'

async function connect(url: string, user: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
  const requestInit = { headers: asUser(user) }
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit }))
  closeAfterTest(() => client.close())
  return client
}

const READ_NOTES = { name: 'ask_solo', arguments: { message: 'read my notes' } }

test('an MCP client that shows progress sees where to sign in, and the run goes on', async () => {
  const { server } = await startOAuthSetUp()
  const client = await connect(server.url, 'ada')
  const onprogress = async (message: string | undefined): Promise<void> => {
    const address = /^Sign in to notes: (\S+)$/.exec(message ?? '')?.[1]
    if (address) await new Browser().signIn(address, 'ada@idp')
  }

  const result = (await client.callTool(READ_NOTES, { onprogress: ({ message }) => void onprogress(message) })) as Json

  expect(result.structuredContent.answer).toContain('Notes of ada@idp')
})

test('one that shows none gets a result that says so, and nothing waits', async () => {
  const { server } = await startOAuthSetUp()

  const result = (await (await connect(server.url, 'ada')).callTool(READ_NOTES)) as Json

  expect(result).toMatchObject({ isError: true, _meta: { 'bureau/code': 'oauth_needs_streaming' } })
  expect(result.content[0].text).toContain('notes wants its user to sign in')
})

test('a thread belongs to its user', async () => {
  const { server } = await startOAuthSetUp()
  server.provider.respond(() => text('Hello.'))
  const ask = async (user: string, thread_id?: string): Promise<Json> => {
    const client = await connect(server.url, user)
    return client.callTool({ name: 'ask_solo', arguments: { message: 'hi', ...(thread_id && { thread_id }) } })
  }
  const { thread_id } = (await ask('ada')).structuredContent

  expect(await ask('bob', thread_id)).toMatchObject({ isError: true, _meta: { 'bureau/code': 'thread_not_found' } })
  expect((await ask('ada', thread_id)).structuredContent.thread_id).toBe(thread_id)
})
