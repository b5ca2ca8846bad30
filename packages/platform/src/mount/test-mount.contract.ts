import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { localFileStores } from '@bureau/runtime'
import { onTestFinished } from 'vitest'
import type { AgencyMount } from './agency-mount.ts'
import { AgencyMounts } from './agency-mounts.ts'

export const OWNER = { ownerId: 'own_01jtest', integrationId: 'int_01jtest' }

type TestMount = {
  readonly mounts: AgencyMounts
  readonly mount: AgencyMount
  /** Data folder, where the operator's other secrets lie. */
  readonly dataFolder: string
  /** The mount as a sandbox sees it: writes and links there at will. */
  readonly sandbox: string
  readonly write: (path: string, content: string | Uint8Array) => Promise<void>
}

/** A mount in a folder of its own, gone when the test is over. */
export async function openTestMount(): Promise<TestMount> {
  const dataFolder = await realpath(await mkdtemp(join(tmpdir(), 'bureau-mount-')))
  onTestFinished(() => rm(dataFolder, { recursive: true, force: true }))
  const mounts = new AgencyMounts(localFileStores(dataFolder))
  const mount = await mounts.of(OWNER)
  const sandbox = join(dataFolder, 'mounts', OWNER.ownerId, OWNER.integrationId)
  const write = async (path: string, content: string | Uint8Array): Promise<void> => {
    await mkdir(join(sandbox, dirname(path)), { recursive: true })
    await writeFile(join(sandbox, path), content)
  }
  return { mounts, mount, dataFolder, sandbox, write }
}

export async function* chunks(...parts: (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield Buffer.from(part)
}
