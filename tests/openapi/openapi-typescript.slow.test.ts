import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startPlatform } from '../platform/support/test-platform.ts'
import { installOnce } from '../support/install-once.ts'
import { closeAfterTest, soloAgency, startTestServer } from '../support/test-server.ts'

const run = promisify(execFile)

/** Wants TypeScript 5, and the repository has another one. */
const VERSION = '7.13.0'

const compilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noEmit: true,
  allowImportingTsExtensions: true,
  module: 'nodenext',
  target: 'es2022',
  types: [],
}

const SELF_HOSTED = `
type Body = paths['/solo/get_response']['post']['requestBody']['content']['application/json']
export const body: Body = { message: 'Where is order 7?' }
// @ts-expect-error a message is not a number
export const wrong: Body = { message: 7 }
export const refusedAs = (refused: components['schemas']['RunRequest']): Body => refused
type Mcp = paths['/mcp']['post']['requestBody']['content']['application/json']
export const ping: Mcp = { jsonrpc: '2.0', method: 'ping' }
// @ts-expect-error a request of MCP has a method
export const nothing: Mcp = { jsonrpc: '2.0' }
type Rpc = paths['/a2a/{agency}']['post']['requestBody']['content']['application/json']
export const task: Rpc = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } }
`

const PLATFORM = `
type Body = paths['/get_completion_v2']['post']['requestBody']['content']['application/json']
export const body: Body = { apiIntegrationId: 'int_1', message: 'Where is order 7?' }
// @ts-expect-error the integration is missing
export const wrong: Body = { message: 'Where is order 7?' }
type Run = paths['/v1/runs/{runId}']['get']['responses']['200']['content']['application/json']
export const isOver = ({ status }: Run): boolean => status === 'completed' || status === 'failed'
// @ts-expect-error there is no such status
export const isOdd = ({ status }: Run): boolean => status === 'odd'
`

describe('types that openapi-typescript makes of an API description', () => {
  let installed: string
  let folder: string
  beforeAll(async () => {
    installed = await installOnce(`openapi-typescript-${VERSION}`, [`openapi-typescript@${VERSION}`, 'typescript@5'])
    folder = mkdtempSync(path.join(installed, 'caller-'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** Makes the types, and compiles a caller with them. @returns What the compiler has to say. */
  async function compile(document: unknown, caller: string): Promise<string> {
    const bin = (name: string): string => path.join(installed, 'node_modules', name)
    writeFileSync(path.join(folder, 'api.json'), JSON.stringify(document))
    writeFileSync(path.join(folder, 'caller.ts'), `import type { components, paths } from './api.ts'\n${caller}`)
    await run('node', [bin('openapi-typescript/bin/cli.js'), 'api.json', '-o', 'api.ts'], { cwd: folder })
    writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['caller.ts'] }))
    const compiled = run('node', [bin('typescript/bin/tsc'), '-p', '.'], { cwd: folder })
    return compiled.then(
      () => '',
      ({ stdout }: { readonly stdout: string }) => stdout,
    )
  }

  test('of the self-hosted server fit its callers', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { body } = await server.get('/openapi.json')

    expect(await compile(body, SELF_HOSTED)).toBe('')
  })

  test('of the platform fit its callers', async () => {
    const platform = await startPlatform('pglite')
    closeAfterTest(() => platform.close())
    const { body } = await (await platform.client()).get('/v1/openapi.json')

    expect(await compile(body, PLATFORM)).toBe('')
  })
})
