import { mkdir, readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { ServiceError } from '@bureau/protocol'
import { findReferencedBlobs } from '../chats/attachments.repo.ts'
import type { Platform } from '../context.ts'
import { backupDatabase } from '../db/backup.ts'
import { sweepAllExpired } from '../db/sweep-expired.ts'
import { vacuumDatabase } from '../db/vacuum.ts'
import { repairDrift } from '../members/repair-drift.ts'
import { releaseOverdueRuns } from '../runs/approve/wake-processes.ts'
import { expireUploads, listOverdueUploads } from '../uploads/manage-uploads.ts'
import { listMountOwners, setMountUsage } from '../uploads/mount-usage.ts'
import { foldAllUsage } from '../usage/fold-usage.ts'
import { type DueWork, findDueWork } from './find-due-work.ts'
import { declareTasks, setTaskPosition, takeDueTasks } from './maintenance-tasks.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const KEPT_BACKUPS = 24
const LOOK_MS = 10_000
const STRETCHES_PER_CHECK = 10
const MOUNTS_PER_MEASURING = 100
const UPLOADS_PER_EXPIRY = 500

/** What a process does when it finds it to be due. */
type DueTask = {
  readonly name: string
  readonly due: keyof DueWork
  readonly work: (platform: Platform) => Promise<void>
}

/** What one process at a time does for all. `position` is what the task answered the last time, wherever that was. */
type SharedTask = {
  readonly name: string
  readonly everyMs: number
  readonly work: (platform: Platform, position: string | null) => Promise<string | null | void>
}

const DUE_TASKS: readonly DueTask[] = [
  { name: 'adopt runs', due: 'ownRuns', work: ({ executor, replica }) => executor.adopt(replica.bootId) },
  { name: 'release overdue runs', due: 'overdueRuns', work: releaseOverdueRuns },
  // What another process announced and did not live to deliver.
  { name: 'deliver webhooks', due: 'deliveries', work: async ({ webhooks }) => webhooks.wake() },
  { name: 'do shared tasks', due: 'tasks', work: doSharedTasks },
]

const SHARED_TASKS: readonly SharedTask[] = [
  { name: 'fold usage', everyMs: MINUTE_MS, work: ({ store }) => foldAllUsage(store.db) },
  { name: 'sweep', everyMs: 5 * MINUTE_MS, work: ({ store }) => sweepAllExpired(store.db) },
  { name: 'expire uploads', everyMs: 5 * MINUTE_MS, work: dropExpiredUploads },
  { name: 'check counters', everyMs: MINUTE_MS, work: checkCounters },
  { name: 'vacuum', everyMs: MINUTE_MS, work: vacuumRecords },
  { name: 'measure mounts', everyMs: 5 * MINUTE_MS, work: measureMounts },
  { name: 'remove leftovers', everyMs: HOUR_MS, work: removeLeftovers },
  { name: 'backup', everyMs: HOUR_MS, work: backUp },
]

const SHARED_NAMES = SHARED_TASKS.map(({ name }) => name)

/** Looks for what is to be done, and does it. @returns A function that ends it and waits for what is under way. */
export async function startMaintenance(platform: Platform): Promise<() => Promise<void>> {
  await platform.store.db.run(declareTasks, SHARED_NAMES)
  const running = new Map<string, Promise<void>>()
  // What takes long is not begun again before it has ended, and holds up nothing else.
  const begin = (name: string, work: (platform: Platform) => Promise<void>): void => {
    if (running.has(name)) return
    const task = work(platform)
      .catch((error: unknown) => warn(platform, name, error))
      .finally(() => running.delete(name))
    running.set(name, task)
  }
  const look = async (): Promise<void> => {
    const found = await platform.store.db.run(findDueWork, { bootId: platform.replica.bootId, tasks: SHARED_NAMES })
    for (const { name, due, work } of DUE_TASKS) if (found[due]) begin(name, work)
  }
  const timer = setInterval(() => begin('look for work', look), LOOK_MS).unref()
  return async () => {
    clearInterval(timer)
    while (running.size > 0) await Promise.all(running.values())
  }
}

/** A task that fails, or whose process dies, is done by whoever takes it the next time. */
async function doSharedTasks(platform: Platform): Promise<void> {
  const { db } = platform.store
  const everyMs = Object.fromEntries(SHARED_TASKS.map((task) => [task.name, task.everyMs]))
  for (const { name, position } of await db.run(takeDueTasks, everyMs)) {
    try {
      const next = (await SHARED_TASKS.find((task) => task.name === name)?.work(platform, position)) ?? null
      if (next !== position) await db.run(setTaskPosition, { name, position: next })
    } catch (error) {
      warn(platform, name, error)
    }
  }
}

function warn({ log }: Platform, name: string, error: unknown): void {
  log.warn({ err: error }, `maintenance failed: ${name}`)
}

/** Their files first: a process may have died after a file got its name, and before its record did. */
export async function dropExpiredUploads(platform: Platform, position: string | null): Promise<string | null> {
  const { store, mounts } = platform
  const overdue = await store.db.run(listOverdueUploads, { after: position, limit: UPLOADS_PER_EXPIRY })
  const dropped = await workOnEach(platform, 'expire uploads', overdue, async (upload) => {
    await (await mounts.of(upload)).delete(upload.path)
  })
  const uploadIds = dropped.map(({ uploadId }) => uploadId)
  if (uploadIds.length > 0) await store.db.run(expireUploads, uploadIds)
  return overdue.length < UPLOADS_PER_EXPIRY ? null : (overdue.at(-1)?.uploadId ?? null)
}

/** Sandboxes write into mounts on a disk without asking: the counters follow, those of some mounts each time. */
export async function measureMounts(platform: Platform, position: string | null): Promise<string | null> {
  const { store, mounts } = platform
  const owners = await store.db.run(listMountOwners, { after: position, limit: MOUNTS_PER_MEASURING })
  await workOnEach(platform, 'measure mounts', owners, async (owner) => {
    const mount = await mounts.of(owner)
    await store.db.run(setMountUsage, { ...owner, ...(await mount.measure()) })
  })
  return owners.length < MOUNTS_PER_MEASURING ? null : (owners.at(-1)?.integrationId ?? null)
}

/**
 * Works on each by itself: a sandbox may make its own mount unusable, which is logged and stops no others. Files or records
 * that cannot be reached stop all.
 *
 * @returns Those that did not fail.
 */
async function workOnEach<Item extends { readonly ownerId: string; readonly integrationId: string }>(
  { log }: Platform,
  name: string,
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<Item[]> {
  const done: Item[] = []
  for (const item of items) {
    try {
      await work(item)
      done.push(item)
    } catch (error) {
      if (error instanceof ServiceError && error.status === 503) throw error
      const { ownerId, integrationId } = item
      log.warn({ err: error, ownerId, integrationId }, `maintenance failed: ${name}`)
    }
  }
  return done
}

/** What processes have left behind that died, and inline images that no message refers to, after a day. */
export async function removeLeftovers(platform: Platform): Promise<void> {
  const { files, staged } = platform
  const before = Date.now() - DAY_MS
  await files.removeLeftovers(before)
  await staged.removeLeftovers(before)
  await removeBlobs(platform, before)
}

async function vacuumRecords({ store, log }: Platform): Promise<void> {
  const tables = await vacuumDatabase(store.db)
  if (tables.length > 0) log.debug({ tables }, 'vacuumed the embedded database')
}

/** Some thousand members a minute, from where the last check ended: a million of them within hours, and no check takes long. */
async function checkCounters({ store, log }: Platform, position: string | null): Promise<string | null> {
  let after = position
  for (let stretch = 0; stretch < STRETCHES_PER_CHECK; stretch++) {
    const { repaired, next } = await store.db.run(repairDrift, { after })
    if (repaired.length > 0) log.error({ repaired }, 'counters did not agree with the ledger and were set right')
    after = next
    if (after === null) break
  }
  return after
}

async function removeBlobs({ store, blobs }: Platform, before: number): Promise<void> {
  for await (const { ownerId, hashes } of blobs.listOld(before)) {
    const kept = new Set((await store.db.run(findReferencedBlobs, { ownerId, blobs: hashes })).map(hex))
    for (const sha256 of hashes) if (!kept.has(hex(sha256))) await blobs.deleteOld(ownerId, sha256, before)
  }
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

/** The embedded database survives a killed process, not a power cut: the copies of a day are kept. */
export async function backUp({ store, config }: Platform): Promise<void> {
  if (store.db.engine !== 'pglite') return
  const folder = path.join(config.dataFolder, 'backups')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  // One process alone has the folder, so that these belong to none any more.
  for (const part of (await readdir(folder)).filter((file) => file.endsWith('.part'))) await rm(path.join(folder, part))
  const name = `${new Date().toISOString().replaceAll(/[:.]/g, '-')}.tar`
  await backupDatabase(store.db, path.join(folder, name))
  const copies = (await readdir(folder)).filter((file) => file.endsWith('.tar')).toSorted()
  for (const copy of copies.slice(0, -KEPT_BACKUPS)) await rm(path.join(folder, copy))
}
