/**
 * The platform that faults happen to. Everything about it is said by the environment; its parent arms faults and asks
 * for what its records hold, by messages.
 */
import { appendFileSync } from 'node:fs'
import { flushCompileCache } from 'node:module'
import path from 'node:path'
import { Agency, Agent, McpConnections, tool } from '@bureau/framework'
import { ensureFirstOwner, loadPlatformConfig, openDatabase } from '@bureau/platform'
import { checkInvariants, type Database, equipPlatform, equipStore, queryRows } from '@bureau/platform/testing'
import { createLogger, listen } from '@bureau/runtime'
import { loadConfig, modelAccess } from '@bureau/server'
import { z } from 'zod'
import { type AgencyVersion, type Fault, type FromServer, TOOL, TOOL_CALLS, type ToServer } from './fault.ts'
import { FaultyDatabase } from './faulty-database.ts'

const config = loadPlatformConfig()
const send = (message: FromServer): void => void process.send?.(message)
process.once('disconnect', () => process.exit(0))

const toolNamed = (name: string, settings: { needsApproval?: true } = {}) =>
  tool({
    name,
    description: 'Looks something up, or pays it.',
    parameters: z.object({ what: z.string() }),
    ...settings,
    execute: ({ what }) => {
      // Written before anything can happen to this process: the call was made.
      appendFileSync(path.join(config.dataFolder, TOOL_CALLS), `${what}\n`)
      db.pass('inside', TOOL)
      return `${what} is there.`
    },
  })
const TOOLS: Readonly<Record<AgencyVersion, ReturnType<typeof toolNamed>[]>> = {
  usual: [toolNamed('look_up'), toolNamed('pay', { needsApproval: true })],
  larger: [toolNamed('look_up'), toolNamed('pay', { needsApproval: true }), toolNamed('refund')],
  smaller: [toolNamed('look_up')],
}
const tools = TOOLS[(process.env['AGENCY_VERSION'] ?? 'usual') as AgencyVersion]
const ceo = new Agent({ name: 'CEO', instructions: 'Help.', model: 'gpt-test', tools })
const [clerk, closer] = ['Clerk', 'Closer'].map(
  (name) => new Agent({ name, instructions: 'Help.', model: 'gpt-test', tools: [toolNamed('look_up')] }),
) as [Agent, Agent]
const agencies = new Map([
  [
    'shop',
    new Agency({
      name: 'Shop',
      entryPoint: ceo,
      flows: [
        [ceo, clerk],
        [ceo, closer, 'handoff'],
      ],
    }),
  ],
])

const log = createLogger(config.logLevel)
const fault = JSON.parse(process.env['FAULT'] ?? 'null') as Fault | null
const opened = await openDatabase(config.databaseUrl)
const db = new FaultyDatabase(ofVersion(opened, process.env['STATE_VERSION']), fault, (name) =>
  send({ type: 'operation', name }),
)
const masterKey = config.masterKey ?? new Uint8Array(32)
const store = await equipStore(db, { masterKey, issuer: config.platformId })
const state = { isClosing: false }
const environment = { models: modelAccess(loadConfig()), mcp: new McpConnections(), now: Date.now }
const { platform, app } = await equipPlatform(store, { agencies, environment, config, log })
app.addHook('preClose', async () => void (state.isClosing = true))
void db.failed.then((error) => {
  if (state.isClosing) return
  log.fatal({ err: error }, 'the database stopped')
  process.exit(1)
})
await ensureFirstOwner(platform)

process.on('message', (message: ToServer) => void carryOut(message))
const url = await listen(app, { host: '127.0.0.1', port: 0, closeMs: config.closeMs, log })
flushCompileCache() // it may not end by itself
send({ type: 'ready', url })
process.channel?.unref() // asked to end, it ends, whether or not its parent is there

/** A server that knows another version of the state of runs than this one does. */
function ofVersion(database: Database, version: string | undefined): Database {
  if (version === undefined) return database
  const run: Database['run'] = (operation, args, options) =>
    database.run(operation, operation.name === 'takeUpRun' ? { ...args, version: Number(version) } : args, options)
  return { engine: database.engine, failed: database.failed, close: () => database.close(), run }
}

async function carryOut(message: ToServer): Promise<void> {
  if (message.type === 'arm') return db.arm(message.fault)
  const value = await answer(message).catch((error: unknown) => ({ failed: String(error) }))
  send({ type: 'answer', id: message.id, value })
}

async function answer(message: Exclude<ToServer, { type: 'arm' }>): Promise<unknown> {
  if (message.type === 'heap') {
    globalThis.gc?.()
    return process.memoryUsage().heapUsed
  }
  if (message.type === 'bootId') return platform.replica.bootId
  if (message.type === 'rows') return db.run(queryRows, message.query)
  return db.run(checkInvariants, { settled: true })
}
