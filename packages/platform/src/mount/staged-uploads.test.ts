import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { StagedUploads } from './staged-uploads.ts'
import { chunks, openTestMount } from './test-mount.contract.ts'

const ID = 'upl_01jtest'

async function open() {
  const { dataFolder, mount } = await openTestMount()
  return { folder: join(dataFolder, 'staging'), uploads: new StagedUploads(join(dataFolder, 'staging')), mount }
}

const contentOf = (uploads: StagedUploads, size: number) => text(uploads.read(ID, size))

test('an upload in several requests becomes one file', async () => {
  const { uploads, mount } = await open()
  expect(await uploads.append(ID, chunks('one ', 'two'), { offset: 0, maxBytes: 20 })).toEqual({
    bytes: 7,
    brokenOff: null,
  })
  expect(await uploads.append(ID, chunks(), { offset: 7, maxBytes: 20 })).toEqual({ bytes: 0, brokenOff: null })
  expect(await uploads.append(ID, chunks(' three'), { offset: 7, maxBytes: 20 })).toEqual({ bytes: 6, brokenOff: null })
  const path = '/app/mnt/uploads/01jtest/a.txt'
  await mount.put(path, uploads.read(ID, 13), { maxBytes: 13 })
  await uploads.discard(ID)
  await uploads.discard(ID)
  const file = await mount.open(path)
  expect(file && (await text(file.stream))).toBe('one two three')
  await expect(contentOf(uploads, 13)).rejects.toThrow('ENOENT')
})

test('what came before a body broke off is kept', async () => {
  const { uploads } = await open()
  const broken = async function* (): AsyncGenerator<Uint8Array> {
    yield Buffer.from('some')
    throw new Error('the client has gone')
  }
  expect(await uploads.append(ID, broken(), { offset: 0, maxBytes: 20 })).toMatchObject({
    bytes: 4,
    brokenOff: { message: 'the client has gone' },
  })
  await uploads.append(ID, chunks('thing'), { offset: 4, maxBytes: 20 })
  expect(await contentOf(uploads, 9)).toBe('something')
})

test('an upload goes on where its record says, or not at all', async () => {
  const { uploads } = await open()
  await uploads.append(ID, chunks('one two'), { offset: 0, maxBytes: 20 })
  const mismatch = { code: 'upload_offset_mismatch' }
  await expect(uploads.append(ID, chunks('x'), { offset: 8, maxBytes: 20 })).rejects.toMatchObject(mismatch)
  // The record did not get to know of the last bytes.
  await uploads.append(ID, chunks('2'), { offset: 4, maxBytes: 20 })
  expect(await contentOf(uploads, 5)).toBe('one 2')
  await expect(contentOf(uploads, 6)).rejects.toMatchObject(mismatch)
})

test('of two requests at the same moment one adds', async () => {
  const { uploads } = await open()
  const add = (part: string) =>
    uploads.exclusively(ID, () => uploads.append(ID, chunks(part), { offset: 0, maxBytes: 20 }))
  const results = await Promise.allSettled(['aaaa', 'bbbb'].map(add))
  expect(results.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  expect(['aaaa', 'bbbb']).toContain(await contentOf(uploads, 4))
})

test('more than declared is refused, and does not count', async () => {
  const { uploads } = await open()
  await uploads.append(ID, chunks('123'), { offset: 0, maxBytes: 5 })
  let isClosed = false
  const endless = async function* (): AsyncGenerator<Uint8Array> {
    try {
      for (;;) yield Buffer.from('xx')
    } finally {
      isClosed = true
    }
  }
  const attempt = uploads.append(ID, endless(), { offset: 3, maxBytes: 5 })
  await expect(attempt).rejects.toMatchObject({ code: 'upload_too_large' })
  expect(isClosed).toBe(true)
  await uploads.append(ID, chunks('45'), { offset: 3, maxBytes: 5 })
  expect(await contentOf(uploads, 5)).toBe('12345')
})

test('an empty file is a file', async () => {
  const { uploads, mount } = await open()
  await uploads.append(ID, chunks(), { offset: 0, maxBytes: 0 })
  expect(await mount.put('/app/mnt/empty', uploads.read(ID, 0), { maxBytes: 0 })).toMatchObject({ sizeBytes: 0 })
})

test('no id leads elsewhere and no link is followed', async () => {
  const { uploads, folder } = await open()
  await expect(uploads.discard('../x')).rejects.toThrow('id of ours')
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'target'), 'kept')
  await symlink('target', join(folder, `${ID}.upload`))
  await expect(uploads.append(ID, chunks('x'), { offset: 0, maxBytes: 1 })).rejects.toThrow('ELOOP')
})
