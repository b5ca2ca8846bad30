import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const PROGRAM = fileURLToPath(new URL('ended-runs.test-program.ts', import.meta.url))

// What outlives its run is copied twice by V8 and waits for a full collection: that took a tenth of the CPU of an answer.
test('of a run that has ended, less than 3 KB wait for a full collection', async () => {
  const flags = ['--expose-gc', '--conditions=@bureau/source']
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, PROGRAM])

  expect(Number(stdout)).toBeLessThan(3 * 1024)
})
