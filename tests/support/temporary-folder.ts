import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { closeAfterTest } from './test-server.ts'

/** An empty folder that is gone when the test has ended. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'bureau-test-'))
  closeAfterTest(() => rm(folder, { recursive: true, force: true }))
  return folder
}
