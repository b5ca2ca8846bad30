import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { tool } from '@bureau/framework'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { closeAfterTest, soloAgency, startTestServer } from '../support/test-server.ts'

const SUITE = fileURLToPath(new URL('../../node_modules/.bin/conformance', import.meta.url))

/** Tools by the names that the suite calls. */
const TOOLS = [
  tool({
    name: 'test_simple_text',
    description: 'Returns a text.',
    parameters: z.object({}),
    execute: () => 'This is a simple text response for testing.',
  }),
  tool({
    name: 'test_error_handling',
    description: 'Fails.',
    parameters: z.object({}),
    execute: () => {
      throw new Error('as it should')
    },
  }),
]

test.each(['2026-07-28', '2025-11-25'])(
  'the suite of the protocol finds nothing in revision %s but what is listed',
  async (revision) => {
    const server = await startTestServer({ agencies: soloAgency(), tools: TOOLS })
    const folder = mkdtempSync(path.join(tmpdir(), 'mcp-conformance-'))
    closeAfterTest(async () => rmSync(folder, { recursive: true }))
    const listed = fileURLToPath(new URL(`expected-failures-${revision}.yml`, import.meta.url))
    const url = `${server.url.replace('127.0.0.1', 'localhost')}/mcp`
    const args = [SUITE, 'server', '--url', url, '--requirements', revision, '--expected-failures', listed]

    // It exits with 1 for what fails and is not listed, and for what is listed and does not fail.
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, maxBuffer: 64 * 1024 * 1024 })

    expect(stdout).toContain('✓ tools-list')
    expect(stdout).toContain('✓ dns-rebinding-protection')
  },
)
