import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, test, type TestContext } from 'vitest'
import { compileAndPack } from '../../scripts/pack.ts'
import { startBureau } from '../support/bureau-process.ts'
import { LONG_TERM, nodeBinary, OLDEST } from '../support/node-binary.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

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

/** Skips the test of somebody who works without a network. */
const orSkip = (context: TestContext) => (error: Error) => {
  if (process.env['CI'] || !/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT/.test(error.message)) throw error
  return context.skip('the package registry cannot be reached')
}

test('the library, which needs no server, runs on Node 22', async (context) => {
  const folder = await temporaryFolder()
  const tarballs = compileAndPack(path.join(folder, 'tarballs'), {
    packages: ['protocol', 'framework', 'client'],
  }).map(({ filename }) => filename)
  // The package `node` puts a binary in its place when it is installed.
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module", "allowScripts": { "node": true } }')
  writeFileSync(path.join(folder, 'program.js'), PROGRAM)
  const options = ['--prefer-offline', '--no-audit', '--no-fund']
  await run('npm', ['install', ...options, 'node@22', ...tarballs], { cwd: folder }).catch(orSkip(context))

  const { stdout } = await run(path.join(folder, 'node_modules/node/bin/node'), ['program.js'], { cwd: folder })

  expect(JSON.parse(stdout)).toEqual({
    node: expect.stringMatching(/^22\./),
    output: 'Order 7 left.',
    code: 'connection_lost',
  })
})

test.for([OLDEST, LONG_TERM])('both servers run on Node %s', async (release, context) => {
  const BUREAU_DATA = await temporaryFolder()
  const node = await nodeBinary(release).catch(orSkip(context))
  const { url, child, exited } = await startBureau(['start', DEMO], { BUREAU_DATA }, node)
  const { stdout: version } = await run(`/proc/${child.pid}/exe`, ['--version'])
  const { apiKey, apiIntegrationId } = JSON.parse(readFileSync(path.join(BUREAU_DATA, 'credentials.json'), 'utf8'))
  const ask = async (place: string, body: object): Promise<string> => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` }
    return (await fetch(url + place, { method: 'POST', headers, body: JSON.stringify(body) })).text()
  }
  const message = 'What is the weather in Paris?'

  expect(version.trim()).toBe(`v${release}`)
  expect(await ask('/demo/get_response', { message })).toContain('It is 18 °C and sunny in Paris.')
  expect(await ask('/get_completion_v2', { apiIntegrationId, message })).toContain('It is 18 °C and sunny in Paris.')
  child.kill('SIGTERM')
  expect(await exited).toBe(0)
})
