import { Agency, Agent, MCPServerOAuth } from '@bureau/framework'
import { runServer } from '@bureau/server'
import { testUser } from './test-user.ts'

/** A server in a process of its own; what it serves is told by the environment, its address by its first line. */
const { NOTES_URL, TOKEN_FOLDER } = process.env
const notes = new MCPServerOAuth({ name: 'notes', url: NOTES_URL! })
const solo = new Agent({ name: 'Solo', model: 'gpt-test', mcpServers: [notes] })
const { url } = await runServer({
  agencies: { solo: new Agency({ entryPoint: solo }) },
  host: '127.0.0.1',
  port: 0,
  logLevel: 'silent',
  oauthUserId: testUser,
  oauthTokenPath: TOKEN_FOLDER!,
})
console.log(url)
