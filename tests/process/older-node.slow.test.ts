import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test, type TestContext } from 'vitest'
import { compileAndPack } from '../../scripts/pack.ts'
import { startBureau } from '../support/bureau-process.ts'

const run = promisify(execFile)

const PROGRAM = `
import { Agency, Agent, ask, tool } from '@bureau/framework'
import { createClient } from '@bureau/client'
import { z } from 'zod'

const findOrder = tool({
  name: 'find_order',
  description: 'Finds an order by its number.',
  parameters: z.object({ number: z.number().int() }),
  execute: ({ number }) => 'Order ' + number + ' left.',
})
const agency = new Agency({ entryPoint: new Agent({ name: 'Helper', instructions: 'Help.', tools: [findOrder] }) })
const { output } = await ask(agency, 'Where is order 7?')
const { result } = createClient({ url: 'http://127.0.0.1:1/none', retryDelaysMs: [] }).stream('Hi')
const { code } = await result.catch((error) => error)
console.log(JSON.stringify({ node: process.versions.node, output, code }))
`

const DEMO = path.resolve(import.meta.dirname, '../../examples/demo-agency.ts')

function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-older-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Installs a version of Node, and what else is named. @returns Its binary. */
async function installNode(folder: string, context: TestContext, packages: readonly string[]): Promise<string> {
  // The package `node` puts a binary in its place when it is installed.
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module", "allowScripts": { "node": true } }')
  const options = ['--prefer-offline', '--no-audit', '--no-fund']
  await run('npm', ['install', ...options, ...packages], { cwd: folder }).catch((error: Error) => {
    if (process.env['CI'] || !/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT/.test(error.message)) throw error
    context.skip('the package registry cannot be reached')
  })
  return path.join(folder, 'node_modules/node/bin/node')
}

test('the library, which needs no server, runs on Node 22', async (context) => {
  const folder = temporaryFolder()
  const tarballs = compileAndPack(path.join(folder, 'tarballs'), {
    packages: ['protocol', 'framework', 'client'],
  }).map(({ filename }) => filename)
  const node = await installNode(folder, context, ['node@22', ...tarballs])
  writeFileSync(path.join(folder, 'program.js'), PROGRAM)

  const { stdout } = await run(node, ['program.js'], { cwd: folder })

  expect(JSON.parse(stdout)).toEqual({
    node: expect.stringMatching(/^22\./),
    output: 'Order 7 left.',
    code: 'connection_lost',
  })
})

test('both servers run on Node 24.11, the oldest that they say', async (context) => {
  const BUREAU_DATA = temporaryFolder()
  const node = await installNode(temporaryFolder(), context, ['node@24.11'])
  const { url, child, exited } = await startBureau(['start', DEMO], { BUREAU_DATA }, node)
  const { stdout: version } = await run(`/proc/${child.pid}/exe`, ['--version'])
  const { apiKey, apiIntegrationId } = JSON.parse(readFileSync(path.join(BUREAU_DATA, 'credentials.json'), 'utf8'))
  const ask = async (place: string, body: object): Promise<string> => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` }
    return (await fetch(url + place, { method: 'POST', headers, body: JSON.stringify(body) })).text()
  }
  const message = 'What is the weather in Paris?'

  expect(version).toMatch(/^v24\.11\./)
  expect(await ask('/demo/get_response', { message })).toContain('It is 18 °C and sunny in Paris.')
  expect(await ask('/get_completion_v2', { apiIntegrationId, message })).toContain('It is 18 °C and sunny in Paris.')
  child.kill('SIGTERM')
  expect(await exited).toBe(0)
})
