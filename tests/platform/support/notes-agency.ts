import { Agency, Agent, MCPServerOAuth } from '@bureau/framework'
import { testUser } from '../../oauth/support/test-user.ts'

/** An agency file whose agent needs its users to sign in, at the address that the environment names. */
const notes = new MCPServerOAuth({ name: 'notes', url: process.env['NOTES_URL'] ?? 'http://127.0.0.1:1/mcp' })
export const solo = new Agency({ entryPoint: new Agent({ name: 'Solo', model: 'gpt-test', mcpServers: [notes] }) })
export const oauthUserId = testUser
