import { Agency, Agent, McpConnections, MCPServerOAuth } from '@bureau/framework'
import { createLogger } from '@bureau/runtime'
import { expect, onTestFinished, test } from 'vitest'
import { loadPlatformConfig } from '../config.ts'
import type { StartUp } from '../config.ts'
import { openSignIns } from './open-sign-ins.ts'

const server = new MCPServerOAuth({ name: 'notes', url: 'https://notes.example/mcp' })
const agency = new Agency({ entryPoint: new Agent({ name: 'Desk', mcpServers: [server] }) })

function callbackAt(environment: Record<string, string>, startUp: Pick<StartUp, 'address'>): string | undefined {
  const signIns = openSignIns({
    agencies: new Map([['desk', agency]]),
    environment: { models: {} as never, mcp: new McpConnections(), now: Date.now },
    config: loadPlatformConfig(environment),
    startUp,
    registry: {} as never,
    openTokenStore: () => ({}) as never,
    log: createLogger('silent'),
  })
  onTestFinished(() => signIns.close())
  return signIns.environmentOf(agency, 'own_1').oauth?.read('OAUTH_CALLBACK_URL')
}

test.each([
  ['where the platform listens', {}, 'http://localhost:4321/auth/callback'],
  ['at its public address', { PUBLIC_BASE_URL: 'https://api.example' }, 'https://api.example/auth/callback'],
  ['where the operator says', { OAUTH_CALLBACK_URL: 'https://a.example/back' }, 'https://a.example/back'],
])('users come back from a sign-in %s', (_, environment, address) => {
  expect(callbackAt(environment as Record<string, string>, { address: 'http://localhost:4321' })).toBe(address)
})
