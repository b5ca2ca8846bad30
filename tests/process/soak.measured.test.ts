import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const SOAK = fileURLToPath(new URL('../../bench/soak/main.ts', import.meta.url))

test.runIf(process.platform === 'linux')(
  'cancels, lost clients, slow readers and failing providers leave nothing behind',
  async () => {
    const args = ['--conditions=@bureau/source', SOAK, '--streams', '200', '--minutes', '0.1']

    const { stdout } = await promisify(execFile)(process.execPath, args).catch((error: { stdout: string }) => error)

    expect(stdout).toContain('Every stream ended as it must, and everything was given back.')
  },
)
