import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type FileStore, localFileStores } from '@bureau/runtime'
import { expect, onTestFinished, test } from 'vitest'
import { BlobStore } from './blob-store.ts'

const MINUTE_MS = 60_000

async function openBlobs(): Promise<{ blobs: BlobStore; folder: string }> {
  const root = await mkdtemp(join(tmpdir(), 'bureau-blobs-'))
  onTestFinished(() => rm(root, { recursive: true }))
  return { blobs: new BlobStore(await localFileStores(root).open('blobs')), folder: join(root, 'blobs') }
}

async function listed(blobs: BlobStore, before: number): Promise<{ ownerId: string; hashes: readonly Uint8Array[] }[]> {
  const pages = []
  for await (const page of blobs.listOld(before)) pages.push(page)
  return pages
}

test('keeps the blobs of each owner by their content', async () => {
  const { blobs } = await openBlobs()
  const bytes = Buffer.from('an image')
  const sha256 = await blobs.put('own_1', bytes)
  expect(Buffer.from(sha256).toString('hex')).toBe(createHash('sha256').update(bytes).digest('hex'))
  expect(await blobs.put('own_1', bytes)).toEqual(sha256)
  expect(bytes.equals((await blobs.read('own_1', sha256)) ?? Buffer.alloc(0))).toBe(true)
  expect(await blobs.read('own_2', sha256)).toBeUndefined()
})

test('a blob is old when it was not put since', async () => {
  const { blobs } = await openBlobs()
  const sha256 = await blobs.put('own_1', Buffer.from('an image'))
  const [earlier, later] = [Date.now() - MINUTE_MS, Date.now() + MINUTE_MS]

  expect(await listed(blobs, earlier)).toEqual([])
  await blobs.deleteOld('own_1', sha256, earlier)
  expect(await blobs.read('own_1', sha256)).toBeDefined()

  expect(await listed(blobs, later)).toEqual([{ ownerId: 'own_1', hashes: [sha256] }])
  for (const _ of ['once', 'again']) await blobs.deleteOld('own_1', sha256, later)
  expect(await blobs.read('own_1', sha256)).toBeUndefined()
})

test('old blobs are listed a thousand at a time, those of each owner by themselves', async () => {
  const { blobs, folder } = await openBlobs()
  for (const [ownerId, count] of [
    ['own_1', 1_001],
    ['own_2', 2],
  ] as const) {
    await mkdir(join(folder, ownerId))
    for (let n = 0; n < count; n++) await writeFile(join(folder, ownerId, n.toString(16).padStart(64, '0')), 'x')
  }
  const pages = await listed(blobs, Date.now() + MINUTE_MS)
  expect(pages.map(({ ownerId, hashes }) => [ownerId, hashes.length])).toEqual([
    ['own_1', 1_000],
    ['own_1', 1],
    ['own_2', 2],
  ])
  expect(new Set(pages.flatMap(({ hashes }) => hashes.map((hash) => hash.at(-1)))).size).toBe(256)
})

test('a full disk is a store that cannot be used now, not a fault of the request or of the program', async () => {
  const put = (): Promise<never> => Promise.reject(Object.assign(new Error('write'), { code: 'ENOSPC' }))
  const blobs = new BlobStore({ put } as unknown as FileStore)

  await expect(blobs.put('own_1', Buffer.from('an image'))).rejects.toMatchObject({ code: 'files_unavailable' })
})
