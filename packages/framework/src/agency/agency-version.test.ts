import { expect, test } from 'vitest'
import { z } from 'zod'
import { Agency, type AgencyOptions } from './agency.ts'
import { Agent } from './agent.ts'
import type { AgentOptions } from './agent-options.ts'
import { MCPServerOAuth } from './oauth-server.ts'
import { messageTool } from './message-tool.ts'
import { tool, Tool } from './tool.ts'

type Changes = {
  readonly clerk?: Partial<AgentOptions>
  readonly tool?: object
  readonly agency?: Partial<AgencyOptions>
  readonly flow?: Parameters<typeof messageTool>[0]
}

/** Everything is made anew, as after a restart. */
function versionOf({ clerk = {}, tool: changed = {}, agency = {}, flow = {} }: Changes = {}): string {
  const refund = tool({
    name: 'refund',
    description: 'Pays an order back.',
    parameters: z.object({ order: z.number() }),
    execute: ({ order }) => `Order ${order} is paid back.`,
    ...changed,
  })
  const lead = new Agent({ name: 'Lead', instructions: 'Lead.' })
  const helper = new Agent({ name: 'Clerk', instructions: 'Help.', model: 'gpt-test', tools: [refund], ...clerk })
  const flows = [[lead, helper, messageTool(flow)]] as const
  return new Agency({ name: 'Shop', entryPoint: lead, flows, ...agency }).version
}

class Greet extends Tool {
  readonly description = 'Greets.'
  readonly parameters = z.object({})
  run(): string {
    return 'Hello.'
  }
}

const changes: Readonly<Record<string, Changes>> = {
  instructions: { clerk: { instructions: 'Help quickly.' } },
  'instructions that a function writes': { clerk: { instructions: () => 'Help quickly.' } },
  'another function that writes them': { clerk: { instructions: () => 'Help slowly.' } },
  'the shared instructions': { agency: { sharedInstructions: 'Be kind.' } },
  'a model': { clerk: { model: 'gpt-other' } },
  'settings of a model': { clerk: { modelSettings: { temperature: 0.3 } } },
  'what an agent is for': { clerk: { description: 'Knows the orders.' } },
  'the schema of a tool': { tool: { parameters: z.object({ order: z.string() }) } },
  'the description of a tool': { tool: { description: 'Refunds an order.' } },
  'what a tool does': { tool: { execute: () => 'Nothing is paid back.' } },
  'who decides about its calls': { tool: { needsApproval: true } },
  'for which calls': { tool: { needsApproval: ({ order }: { order: number }) => order > 7 } },
  'and with which arguments': { tool: { needsApproval: { when: true, edit: true } } },
  'a tool class': { clerk: { tools: [Greet] } },
  'a tool that the provider carries out': {
    clerk: { tools: [{ type: 'hosted_tool', name: 'web_search', providerData: { type: 'web_search' } }] },
  },
  'the form of an answer': { clerk: { outputType: z.object({ total: z.number() }) } },
  'a tool server': { clerk: { mcpServers: [new MCPServerOAuth({ name: 'mail', url: 'https://mail.test/mcp' })] } },
  'a guardrail': {
    clerk: { inputGuardrails: [{ name: 'polite', execute: async () => ({ tripwireTriggered: false }) }] },
  },
  'a handoff': { clerk: { handoffs: [new Agent({ name: 'Boss' })] } },
  'the way to message an agent': { flow: { description: 'Asks the clerk.' } },
  'the turns of a conversation': { agency: { maxTurns: 3 } },
}

test('a version is 16 hexadecimal digits, and the same for the same definition', () => {
  expect(versionOf()).toMatch(/^[0-9a-f]{16}$/)
  expect(versionOf()).toBe(versionOf())
})

test('whatever behaviour depends on makes another version, and the change back the one before', () => {
  const versions = Object.values(changes).map(versionOf)

  expect(new Set([versionOf(), ...versions]).size).toBe(versions.length + 1)
  expect(Object.values(changes).map(versionOf)).toEqual(versions)
})

test('names for people, what front ends offer and the credentials of a tool do not count', () => {
  const hosted = (headers: object): Changes => ({
    clerk: { tools: [{ type: 'hosted_tool', name: 'hosted_mcp', providerData: { type: 'mcp', headers } }] },
  })
  expect(versionOf({ agency: { name: 'Store', userContext: { at: Date.now() } } })).toBe(versionOf())
  expect(versionOf({ clerk: { conversationStarters: ['Hi'], quickReplies: ['Yes'] } })).toBe(versionOf())
  expect(versionOf(hosted({ authorization: 'Bearer one' }))).toBe(versionOf(hosted({ authorization: 'Bearer two' })))
})
