import { execFile } from 'node:child_process'
import { rmSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { compileAndPack } from '../../scripts/pack.ts'

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

test('the library, which needs no server, runs on Node 22', async (context) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-older-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const tarballs = compileAndPack(path.join(folder, 'tarballs'), {
    packages: ['protocol', 'framework', 'client'],
  }).map(({ filename }) => filename)
  // The package `node` puts a binary in its place when it is installed.
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module", "allowScripts": { "node": true } }')
  writeFileSync(path.join(folder, 'program.js'), PROGRAM)
  const options = ['--prefer-offline', '--no-audit', '--no-fund']
  await run('npm', ['install', ...options, 'node@22', ...tarballs], { cwd: folder }).catch((error: Error) => {
    if (process.env['CI'] || !/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT/.test(error.message)) throw error
    context.skip('the package registry cannot be reached')
  })

  const { stdout } = await run(path.join(folder, 'node_modules/node/bin/node'), ['program.js'], { cwd: folder })

  expect(JSON.parse(stdout)).toEqual({
    node: expect.stringMatching(/^22\./),
    output: 'Order 7 left.',
    code: 'connection_lost',
  })
})
