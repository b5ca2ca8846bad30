import { text } from 'node:stream/consumers'
import { localFileStores } from '@bureau/runtime'
import { expect, test } from 'vitest'
import { StagedUploads } from './staged-uploads.ts'
import { chunks, openTestMount } from './test-mount.contract.ts'

const ID = 'upl_01jtest'

async function open() {
  const { dataFolder, mount } = await openTestMount()
  const files = await localFileStores(dataFolder).open('uploads')
  const kept = async (): Promise<string[]> => {
    const names: string[] = []
    for await (const { name } of files.list()) names.push(name)
    return names
  }
  return { uploads: new StagedUploads(files), mount, kept }
}

test('an upload in several requests becomes one file', async () => {
  const { uploads, mount, kept } = await open()
  const first = await uploads.append(ID, chunks('one ', 'two'), 20)
  const second = await uploads.append(ID, chunks(' three'), 13)
  expect([first, second]).toMatchObject([
    { bytes: 7, brokenOff: null },
    { bytes: 6, brokenOff: null },
  ])
  const parts = [first.part!, second.part!]
  const path = '/app/mnt/uploads/01jtest/a.txt'
  await mount.put(path, uploads.read(ID, parts), { maxBytes: 13 })
  for (const _ of ['once', 'again']) await uploads.discard(ID, parts)
  const file = await mount.open(path)
  expect(file && (await text(file.stream))).toBe('one two three')
  expect(await kept()).toEqual([])
  await expect(text(uploads.read(ID, parts))).rejects.toMatchObject({ code: 'upload_expired' })
})

test('what came before a body broke off is kept', async () => {
  const { uploads } = await open()
  const broken = async function* (): AsyncGenerator<Uint8Array> {
    yield Buffer.from('some')
    throw new Error('the client has gone')
  }
  const first = await uploads.append(ID, broken(), 20)
  expect(first).toMatchObject({ bytes: 4, brokenOff: { message: 'the client has gone' } })
  const second = await uploads.append(ID, chunks('thing'), 16)
  expect(await text(uploads.read(ID, [first.part!, second.part!]))).toBe('something')
})

test('bytes that the record did not get to know of do not count', async () => {
  const { uploads } = await open()
  const lost = await uploads.append(ID, chunks('lost'), 20)
  const counted = await uploads.append(ID, chunks('kept'), 20)
  expect(lost.part).not.toBe(counted.part)
  expect(await text(uploads.read(ID, [counted.part!]))).toBe('kept')
})

test('of two requests at the same moment one adds', async () => {
  const { uploads } = await open()
  const add = (part: string) => uploads.exclusively(ID, () => uploads.append(ID, chunks(part), 20))
  const results = await Promise.allSettled(['aaaa', 'bbbb'].map(add))
  expect(results.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
})

test('more than declared is refused, and nothing is kept of it', async () => {
  const { uploads, kept } = await open()
  let isClosed = false
  const endless = async function* (): AsyncGenerator<Uint8Array> {
    try {
      for (;;) yield Buffer.from('xx')
    } finally {
      isClosed = true
    }
  }
  await expect(uploads.append(ID, endless(), 5)).rejects.toMatchObject({ code: 'upload_too_large' })
  expect(isClosed).toBe(true)
  expect(await kept()).toEqual([])
})

test('a request without content adds no part, and an empty file is a file', async () => {
  const { uploads, mount } = await open()
  expect(await uploads.append(ID, chunks(), 0)).toEqual({ part: null, bytes: 0, brokenOff: null })
  expect(await mount.put('/app/mnt/empty', uploads.read(ID, []), { maxBytes: 0 })).toMatchObject({ sizeBytes: 0 })
})

test('what nobody has removed goes when it is older than any upload', async () => {
  const { uploads, kept } = await open()
  await uploads.append(ID, chunks('x'), 1)
  await uploads.removeLeftovers(Date.now() - 60_000)
  expect(await kept()).toHaveLength(1)
  await uploads.removeLeftovers(Date.now() + 60_000)
  expect(await kept()).toEqual([])
})

test('no id leads elsewhere', async () => {
  const { uploads } = await open()
  await expect(uploads.discard('../x', ['a'])).rejects.toThrow('id of ours')
})
