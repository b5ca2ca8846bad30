import { mkdtemp, readdir, rm } from 'node:fs/promises'
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
    close: async () => {},
  }
})

test('what has expired is removed when a process begins to claim', async () => {
  const directory = await folder()
  let now = 1_800_000_000_000
  await new FileClaims({ directory, now: () => now }).claim('old', now + 1_000)
  await new FileClaims({ directory, now: () => now }).claim('kept', now + 60_000)
  expect(await readdir(directory)).toHaveLength(2)

  now += 2_000
  await new FileClaims({ directory, now: () => now }).claim('new', now + 1_000)

  expect(await readdir(directory)).toHaveLength(2)
})
