import { mkdtemp, readdir, readlink, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { type FileStores, localFileStores } from '@bureau/runtime'
import { expect, onTestFinished, test } from 'vitest'
import { copyFiles } from './copy-files.ts'

async function openStores(): Promise<FileStores> {
  const folder = await mkdtemp(join(tmpdir(), 'bureau-copy-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return localFileStores(folder)
}

async function write(stores: FileStores, area: string, name: string, content: string): Promise<void> {
  const body = async function* (): AsyncGenerator<Uint8Array> {
    yield Buffer.from(content)
  }
  await (await stores.open(area)).put(name, body(), { maxBytes: 100 })
}

async function contentsOf(stores: FileStores): Promise<Record<string, string>> {
  const contents: Record<string, string> = {}
  for (const area of ['blobs', 'mounts', 'uploads']) {
    const store = await stores.open(area)
    for await (const { name } of store.list()) {
      const file = await store.open(name)
      contents[`${area}/${name}`] = file ? await text(file.stream) : ''
    }
  }
  return contents
}

/** What this process holds open in the folders of these tests. */
async function heldOpen(): Promise<string[]> {
  const paths = (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => ''))
  return (await Promise.all(paths)).filter((path) => path.includes('bureau-copy-'))
}

test('every file of every area is copied, and only what is new the next time', async () => {
  const [from, to] = [await openStores(), await openStores()]
  for (let n = 0; n < 30; n++) await write(from, 'mounts', `own_1/int_1/uploads/${n}/ü.txt`, `content ${n}`)
  await write(from, 'blobs', 'own_1/ab', 'image')
  await write(from, 'uploads', 'upl_1/part', 'half')
  await write(to, 'mounts', 'own_0/int_0/a', 'of its own')

  const progress: number[] = []
  const first = await copyFiles(from, to, ({ copied }) => progress.push(copied))
  await write(from, 'blobs', 'own_1/cd', 'another')
  await write(from, 'blobs', 'own_1/ab', 'smaller')
  const second = await copyFiles(from, to, () => {})

  expect(first).toMatchObject({ copied: 32, kept: 0 })
  expect(progress).toHaveLength(32)
  expect(second).toMatchObject({ copied: 2, copiedBytes: 14, kept: 31 })
  await expect.poll(heldOpen).toEqual([])
  expect(await contentsOf(to)).toEqual({ ...(await contentsOf(from)), 'mounts/own_0/int_0/a': 'of its own' })
})

test('a copy that was interrupted goes on with what is missing', async () => {
  const [from, to] = [await openStores(), await openStores()]
  for (let n = 0; n < 30; n++) await write(from, 'mounts', `own_1/int_1/${n}`, 'x')
  let puts = 0
  const breaking: FileStores = {
    ...to,
    open: async (area) => {
      const store = await to.open(area)
      const put: typeof store.put = async (...args) => {
        if (++puts > 12) throw new Error('cut')
        await sleep(10) // what is under way when it breaks
        return store.put(...args)
      }
      return Object.assign(Object.create(store) as typeof store, {
        put,
        list: (...args: []) => store.list(...args),
      })
    },
  }

  await expect(copyFiles(from, breaking, () => {})).rejects.toThrow('cut')
  await expect.poll(heldOpen).toEqual([])
  const { copied, kept } = await copyFiles(from, to, () => {})

  expect([copied, kept]).toEqual([18, 12])
})
