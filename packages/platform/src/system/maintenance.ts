import { mkdir, readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { findReferencedBlobs } from '../chats/attachments.repo.ts'
import type { Platform } from '../context.ts'
import { backupDatabase } from '../db/backup.ts'
import { sweepAllExpired } from '../db/sweep-expired.ts'
import { vacuumDatabase } from '../db/vacuum.ts'
import { repairDrift } from '../members/repair-drift.ts'
import { releaseOverdueRuns } from '../runs/approve/wake-processes.ts'
import { expireUploads } from '../uploads/manage-uploads.ts'
import { setMountUsage } from '../uploads/mount-usage.ts'
import { deliverWebhooks } from '../webhooks/deliver-webhooks.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const KEPT_BACKUPS = 24

type Task = { readonly name: string; readonly everyMs: number; readonly work: (platform: Platform) => Promise<void> }

const TASKS: readonly Task[] = [
  { name: 'deliver webhooks', everyMs: 1_000, work: deliverWebhooks },
  { name: 'adopt runs', everyMs: 5_000, work: ({ executor, replica }) => executor.adopt(replica.bootId) },
  { name: 'release overdue runs', everyMs: 5_000, work: releaseOverdueRuns },
  { name: 'sweep', everyMs: MINUTE_MS, work: ({ store }) => sweepAllExpired(store.db) },
  { name: 'expire uploads', everyMs: MINUTE_MS, work: dropExpiredUploads },
  { name: 'measure mounts', everyMs: 5 * MINUTE_MS, work: measureMounts },
  { name: 'vacuum', everyMs: MINUTE_MS, work: vacuumRecords },
  { name: 'check counters', everyMs: 10 * MINUTE_MS, work: checkCounters },
  { name: 'remove blobs', everyMs: HOUR_MS, work: removeBlobs },
  { name: 'backup', everyMs: HOUR_MS, work: backUp },
]

/** What has to be done now and then, each task for itself. @returns A function that ends it and waits for the last one. */
export function startMaintenance(platform: Platform): () => Promise<void> {
  const stops = TASKS.map((task) => repeat(platform, task))
  return async () => {
    await Promise.all(stops.map((stop) => stop()))
  }
}

/** One after the other: a task that takes long is not begun again before it has ended. */
function repeat(platform: Platform, { name, everyMs, work }: Task): () => Promise<void> {
  let running: Promise<void> | undefined
  const timer = setInterval(() => {
    running ??= work(platform)
      .catch((error: unknown) => platform.log.warn({ err: error }, `maintenance failed: ${name}`))
      .finally(() => (running = undefined))
  }, everyMs).unref()
  return async () => {
    clearInterval(timer)
    await running
  }
}

export async function dropExpiredUploads({ store, staged }: Platform): Promise<void> {
  for (const { uploadId } of await store.db.run(expireUploads, undefined)) await staged.discard(uploadId)
}

/** Agents write into their mounts without asking: the counters follow. */
async function measureMounts({ store, mounts }: Platform): Promise<void> {
  for await (const owner of mounts.list()) {
    const mount = await mounts.of(owner)
    await store.db.run(setMountUsage, { ...owner, ...(await mount.measure()) })
  }
}

async function vacuumRecords({ store, log }: Platform): Promise<void> {
  const tables = await vacuumDatabase(store.db)
  if (tables.length > 0) log.debug({ tables }, 'vacuumed the embedded database')
}

async function checkCounters({ store, log }: Platform): Promise<void> {
  const repaired = await store.db.run(repairDrift, undefined)
  if (repaired.length > 0) log.error({ repaired }, 'counters did not agree with the ledger and were set right')
}

/** Inline images that no message refers to, a day after they were sent. */
async function removeBlobs({ store, blobs }: Platform): Promise<void> {
  const old = new Map<string, Uint8Array[]>()
  for await (const { ownerId, sha256, writtenAt } of blobs.list()) {
    if (writtenAt < Date.now() - DAY_MS) old.set(ownerId, [...(old.get(ownerId) ?? []), sha256])
  }
  for (const [ownerId, hashes] of old) {
    const kept = new Set((await store.db.run(findReferencedBlobs, { ownerId, blobs: hashes })).map(hex))
    for (const sha256 of hashes) if (!kept.has(hex(sha256))) await blobs.delete(ownerId, sha256)
  }
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

/** The embedded database survives a killed process, not a power cut: the copies of a day are kept. */
async function backUp({ store, config }: Platform): Promise<void> {
  if (store.db.engine !== 'pglite') return
  const folder = path.join(config.dataFolder, 'backups')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const name = `${new Date().toISOString().replaceAll(/[:.]/g, '-')}.tar`
  await backupDatabase(store.db, path.join(folder, name))
  const copies = (await readdir(folder)).filter((file) => file.endsWith('.tar')).toSorted()
  for (const copy of copies.slice(0, -KEPT_BACKUPS)) await rm(path.join(folder, copy))
}
