import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { describeClaims } from './claims.contract.ts'
import { FileClaims } from './claims.file.ts'

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'claims-'))
  onTestFinished(() => rm(made, { recursive: true }))
  return join(made, 'used')
}

describeClaims('file', async () => {
  const directory = await folder()
  return {
    claims: new FileClaims({ directory }),
    elsewhere: new FileClaims({ directory }),
  }
})

test('what has expired is removed a minute later, when a process begins to claim', async () => {
  const directory = await folder()
  let now = 1_800_000_000_000
  await new FileClaims({ directory, now: () => now }).claim('old', now + 1_000)
  await new FileClaims({ directory, now: () => now }).claim('kept', now + 120_000)
  expect(await readdir(directory)).toHaveLength(2)

  now += 62_000
  await new FileClaims({ directory, now: () => now }).claim('new', now + 1_000)

  expect(await readdir(directory)).toHaveLength(2)
})

test('a file that another process is making, and that has no expiry yet, stays', async () => {
  const directory = await folder()
  await mkdir(directory)
  await writeFile(join(directory, 'being-made'), '')
  const now = Date.now() + 1_000
  await new FileClaims({ directory, now: () => now }).claim('a', now + 1_000)
  expect(await readdir(directory)).toContain('being-made')
})
