import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { startBureau } from '../support/bureau-process.ts'
import { closeAfterTest } from '../support/test-server.ts'

const SHOP = fileURLToPath(new URL('support/shop-agency.ts', import.meta.url))

// What no careful user has: only what the platform asks for itself counts.
const umask = process.umask(0)
afterAll(() => void process.umask(umask))

test('other users of the machine cannot look into the data folder, whatever mode it has', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-private-'))
  closeAfterTest(async () => rmSync(folder, { recursive: true, force: true }))
  chmodSync(folder, 0o755)
  const startOnce = async (): Promise<void> => {
    const { child, exited } = await startBureau(['platform', SHOP], { BUREAU_DATA: folder })
    child.kill('SIGTERM')
    await exited
  }
  const openToOthers = (): string[] =>
    readdirSync(folder).filter((name) => (statSync(path.join(folder, name)).mode & 0o077) !== 0)

  await startOnce()
  expect(openToOthers()).toEqual([])
  expect(readdirSync(folder)).toEqual(expect.arrayContaining(['records', 'blobs', 'staging', 'master.key']))

  // As an earlier version or a copy may have left it.
  for (const name of readdirSync(folder)) {
    chmodSync(path.join(folder, name), statSync(path.join(folder, name)).isDirectory() ? 0o755 : 0o644)
  }
  writeFileSync(path.join(folder, 'notes.txt'), 'not ours')
  await startOnce()
  expect(openToOthers()).toEqual(['notes.txt'])
  expect(statSync(folder).mode & 0o777).toBe(0o755)
})
