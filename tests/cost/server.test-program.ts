import assert from 'node:assert/strict'
import { mkdtempSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Agency, Agent, McpConnections, tool } from '@bureau/framework'
import { tool as sdkTool } from '@openai/agents'
import { openTestPlatform } from '@bureau/platform/testing'
import { createApp, loadConfig, modelAccess } from '@bureau/server'
import { z } from 'zod'

// A server for a test, in a process of its own: says where it is, and on every message what it has cost so far.
const kind = process.argv[2]

const agency = new Agency({ name: 'Solo', entryPoint: new Agent({ name: 'Solo', instructions: 'I.', model: 'demo' }) })

const lookUp = tool({
  name: 'look_up',
  description: 'Looks something up.',
  parameters: z.object({
    words: z.array(z.string()),
    filters: z.record(z.string(), z.union([z.string(), z.number(), z.array(z.object({ name: z.string() }))])),
    page: z.number().optional(),
  }),
  execute: async () => 'ok',
})

const sdkLookUp = sdkTool({
  name: 'sdk_look_up',
  description: 'Looks something up.',
  strict: false,
  parameters: {
    type: 'object' as const,
    properties: {
      words: { type: 'array', items: { type: 'string' } },
      filters: { type: 'object', additionalProperties: { anyOf: [{ type: 'string' }, { type: 'number' }] } },
    },
    required: ['words'] as string[],
    additionalProperties: true,
  },
  execute: async () => 'ok',
})

type Served = { readonly port: number; readonly headers?: Record<string, string>; readonly integrationId?: string }

async function serveAgency(enableAgui: boolean): Promise<Served> {
  const tools = [lookUp, sdkLookUp]
  const logsDir = mkdtempSync(path.join(tmpdir(), 'bureau-logs-'))
  const agencies = { solo: agency }
  const app = await createApp(
    { agencies, tools, enableAgui, enableLogging: true, logsDir, logLevel: 'silent' },
    loadConfig({}),
  )
  await app.listen({ host: '127.0.0.1', port: 0 })
  return { port: (app.server.address() as AddressInfo).port }
}

async function servePlatform(): Promise<Served> {
  const environment = { models: modelAccess(loadConfig({})), mcp: new McpConnections(), now: Date.now }
  const platform = await openTestPlatform('pglite', { agencies: { solo: agency }, environment })
  const { ownerId, key } = await platform.addTenant()
  const integrationId = await platform.addIntegration(ownerId)
  await platform.app.listen({ host: '127.0.0.1', port: 0 })
  process.once('SIGTERM', () => void platform.close().then(() => process.exit(0)))
  return {
    port: (platform.app.server.address() as AddressInfo).port,
    headers: { authorization: `Bearer ${key.token}` },
    integrationId,
  }
}

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

const sample = Buffer.from(`[["${'xxxxxxxxxx\\"'.repeat(500_000)}"]]`)

/** Processor time for what it takes to read a body: going through its bytes, copying them, making a text and a value of them. */
function readSample(): number {
  const before = cpuMs()
  const quotes = sample.reduce((count, byte) => (byte === 0x22 ? count + 1 : count), 0)
  const [[text]] = JSON.parse(Buffer.concat([sample, Buffer.from('\n')]).toString()) as [[string]]
  assert(text.length > quotes)
  return cpuMs() - before
}

process.on('message', (asked: 'usage' | 'reading') => {
  if (asked === 'usage') process.send?.({ cpuMs: cpuMs(), peakMiB: process.resourceUsage().maxRSS / 1_024 })
  else process.send?.(Math.min(...Array.from({ length: 5 }, readSample)))
})
process.once('disconnect', () => process.exit(0))
process.send?.(await (kind === 'platform' ? servePlatform() : serveAgency(kind === 'agui')))
