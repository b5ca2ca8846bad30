/**
 * How simple the house is, in figures: files and functions that a request passes through, by V8's own count, and lines,
 * circles and small files of the sources. Run: npm run house. The provider is a stand-in on loopback.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { Session } from 'node:inspector/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Agency, Agent, McpConnections } from '@bureau/framework'
import { ensureFirstOwner, loadPlatformConfig, openPlatform } from '@bureau/platform'
import { createLogger } from '@bureau/runtime'
import { loadConfig, modelAccess, runServer } from '@bureau/server'
import { circlesOf, fileGraph, folderGraph, readSources } from './import-graph.ts'

const ROOT = path.resolve(import.meta.dirname, '..')
const SMALL_LINES = 25

/** A provider that answers in three pieces of text. */
async function startProvider(): Promise<{ readonly url: string; readonly stop: () => void }> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(200, { 'content-type': 'text/event-stream' }).end(ANSWER))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/v1`, stop: () => server.close().closeAllConnections() }
}

const PIECES = ['The ', 'answer ', 'in words.']
const ITEM = { type: 'message', id: 'msg_1', role: 'assistant' }
const DONE = {
  ...ITEM,
  status: 'completed',
  content: [{ type: 'output_text', text: PIECES.join(''), annotations: [] }],
}
const USAGE = { input_tokens: 9, output_tokens: 3, total_tokens: 12 }
const place = { output_index: 0, item_id: 'msg_1', content_index: 0 }
const ANSWER = [
  { type: 'response.created', response: { id: 'resp_1', status: 'in_progress', output: [] } },
  { type: 'response.output_item.added', output_index: 0, item: { ...ITEM, status: 'in_progress', content: [] } },
  ...PIECES.map((delta) => ({ type: 'response.output_text.delta', ...place, delta })),
  { type: 'response.output_item.done', output_index: 0, item: DONE },
  { type: 'response.completed', response: { id: 'resp_1', status: 'completed', output: [DONE], usage: USAGE } },
]
  .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  .join('')

type Passed = { readonly files: number; readonly functions: number }

/** Counts our own functions that run while `ask` is answered. The first answers load and compile. */
async function countPassed(ask: () => Promise<void>): Promise<Passed> {
  for (let round = 0; round < 3; round++) await ask()
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await session.post('Profiler.takePreciseCoverage')
  await ask()
  const { result } = await session.post('Profiler.takePreciseCoverage')
  session.disconnect()
  let files = 0
  let functions = 0
  for (const { url, functions: known } of result) {
    if (!/\/packages\/[^/]+\/src\//.test(url)) continue
    const called = known.filter(({ ranges, functionName }) => functionName !== '' && (ranges[0]?.count ?? 0) > 0)
    functions += called.length
    if (called.length > 0) files++
  }
  return { files, functions }
}

async function post(url: string, body: object, token?: string): Promise<string> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(token !== undefined && { authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok || !text.includes('in words.')) throw new Error(`${url} answered ${response.status}: ${text}`)
  return text
}

const agency = (): Agency => new Agency({ entryPoint: new Agent({ name: 'Desk', instructions: 'Help.' }) })

async function ofSelfHosted(): Promise<Passed> {
  const served = await runServer({ agencies: { desk: agency() }, port: 0, logLevel: 'silent' })
  try {
    return await countPassed(async () => void (await post(`${served.url}/desk/get_response_stream`, { message: 'Hi' })))
  } finally {
    await served.close()
  }
}

async function ofPlatform(dataFolder: string): Promise<Passed> {
  const models = modelAccess(loadConfig())
  const mcp = new McpConnections()
  const opened = await openPlatform({
    agencies: new Map([['desk', agency()]]),
    environment: { models, mcp, now: Date.now },
    config: loadPlatformConfig({ BUREAU_DATA: dataFolder }),
    // Requests pass through the log, so it is written, but not between the figures.
    log: createLogger('info', { write: () => {} }),
  })
  try {
    const credentials = await ensureFirstOwner(opened.platform)
    const url = await opened.app.listen({ host: '127.0.0.1', port: 0 })
    if (!credentials) throw new Error('the platform was not empty')
    const { apiKey, apiIntegrationId } = credentials
    const body = { message: 'Hi', apiIntegrationId }
    return await countPassed(async () => void (await post(`${url}/get_completion_v2`, body, apiKey)))
  } finally {
    await opened.app.close()
    await mcp.close()
    await models.close()
  }
}

function structure(): Record<string, number> {
  const sources = readSources(ROOT)
  const importers = Map.groupBy(
    sources.flatMap(({ imports }) => imports),
    (file) => file,
  )
  const small = sources.filter((file) => file.lines < SMALL_LINES && importers.get(file.path)?.length === 1)
  const folders = folderGraph(sources)
  const circles = circlesOf(folders)
  const inCircles = circles.flatMap((circle) =>
    circle.flatMap((from) => circle.filter((to) => folders.get(from)?.has(to))),
  )
  return {
    'source files': sources.length,
    'source lines': sources.reduce((sum, { lines }) => sum + lines, 0),
    [`files under ${SMALL_LINES} lines that one file imports`]: small.length,
    'circles of files': circlesOf(fileGraph(sources)).length,
    'circles of folders': circles.length,
    'arrows between folders of a circle': inCircles.length,
  }
}

const provider = await startProvider()
const dataFolder = mkdtempSync(path.join(tmpdir(), 'bureau-house-'))
process.env['OPENAI_API_KEY'] = 'unused'
process.env['OPENAI_BASE_URL'] = provider.url
process.env['PORT'] = '0'
try {
  const selfHosted = await ofSelfHosted()
  const platform = await ofPlatform(dataFolder)
  console.table({
    'one answer in words, self-hosted: files': selfHosted.files,
    'one answer in words, self-hosted: functions': selfHosted.functions,
    'one answer in words, platform, main thread: files': platform.files,
    'one answer in words, platform, main thread: functions': platform.functions,
    ...structure(),
  })
} finally {
  provider.stop()
  rmSync(dataFolder, { recursive: true, force: true })
}
