import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { localFileStores } from '@bureau/runtime'
import { expect, onTestFinished, test } from 'vitest'
import { BlobStore } from './blob-store.ts'

test('keeps the blobs of each owner by their content', async () => {
  const root = await mkdtemp(join(tmpdir(), 'bureau-blobs-'))
  onTestFinished(() => rm(root, { recursive: true }))
  const files = await localFileStores(root).open('blobs')
  const blobs = new BlobStore(files)
  const bytes = Buffer.from('an image')
  const sha256 = await blobs.put('own_1', bytes)
  expect(Buffer.from(sha256).toString('hex')).toBe(createHash('sha256').update(bytes).digest('hex'))
  expect(await blobs.put('own_1', bytes)).toEqual(sha256)
  expect(bytes.equals((await blobs.read('own_1', sha256)) ?? Buffer.alloc(0))).toBe(true)
  expect(await blobs.read('own_2', sha256)).toBeUndefined()

  const kept = []
  for await (const blob of blobs.list()) kept.push(blob)
  expect(kept).toEqual([{ ownerId: 'own_1', sha256, writtenAt: expect.any(Number) as number }])

  await blobs.delete('own_1', sha256)
  await blobs.delete('own_1', sha256)
  expect(await blobs.read('own_1', sha256)).toBeUndefined()
})
