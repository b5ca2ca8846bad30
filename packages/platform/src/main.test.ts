import { McpConnections } from '@bureau/framework'
import { expect, test } from 'vitest'
import { openPlatform } from './main.ts'

const options = { agencies: new Map(), environment: { models: {} as never, mcp: new McpConnections(), now: Date.now } }

test.each([
  [{ ...options, agences: new Map() }, 'openPlatform: there is no option "agences". Did you mean "agencies"?'],
  [
    { ...options, environment: { ...options.environment, observers: [] } },
    'openPlatform: there is no option "environment.observers". Did you mean "environment.observer"?',
  ],
  [{ ...options, agencies: {} as never }, 'openPlatform: agencies: must be a Map of agencies'],
])('options that cannot be meant are refused before anything is opened', async (wrong, message) => {
  await expect(openPlatform(wrong)).rejects.toThrow(message)
})
