import { execFileSync } from 'node:child_process'
import fs, {
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readlink,
  realpath,
  rm,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { ConfigError } from '@bureau/protocol'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { describeFileStore } from './file-store.contract.ts'
import { localFileStores, openLocalFileStore, type LocalFileStore } from './file-store.local.ts'

let root: string
let mount: string
let staging: string
beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'bureau-store-')))
  mount = join(root, 'mount')
  staging = join(root, 'staging')
})
afterEach(() => rm(root, { recursive: true }))

const openStore = (): Promise<LocalFileStore> => openLocalFileStore({ directory: mount, stagingDirectory: staging })

describeFileStore('local disk', openStore)
describeFileStore('local disk, where the system does not show descriptors', () => {
  return openLocalFileStore({ directory: mount, stagingDirectory: staging, descriptors: null })
})

async function* chunks(...parts: string[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield Buffer.from(part)
}

const LIMIT = { maxBytes: 1000 }

async function names(store: LocalFileStore, prefix?: string, after?: string): Promise<string[]> {
  const found: string[] = []
  for await (const { name } of store.list(prefix, after)) found.push(name)
  return found
}

describe('LocalFileStore', () => {
  test('keeps files and folders for this user alone', async () => {
    const store = await openStore()
    await store.put('folder/file', chunks('x'), LIMIT)
    expect((await lstat(join(mount, 'folder', 'file'))).mode & 0o777).toBe(0o600)
    expect((await lstat(join(mount, 'folder'))).mode & 0o777).toBe(0o700)
    expect((await lstat(mount)).mode & 0o777).toBe(0o700)
  })

  test('leaves nothing in the staging directory, whether it succeeds or fails', async () => {
    const store = await openStore()
    await store.put('a', chunks('x'), LIMIT)
    await expect(store.put('b', chunks('x'), { maxBytes: 0 })).rejects.toThrow('too large')
    await expect(store.put('a/c', chunks('x'), LIMIT)).rejects.toMatchObject({ code: 'invalid_file_name' })
    expect(await readdir(staging)).toEqual([])
  })

  test('removes what a crash left there before a moment', async () => {
    await mkdir(staging, { recursive: true })
    for (const name of ['old.part', 'new.part', 'old.txt']) await writeFile(join(staging, name), 'x')
    const twoDaysAgo = new Date(Date.now() - 2 * 24 * 60 * 60 * 1000)
    for (const name of ['old.part', 'old.txt']) await utimes(join(staging, name), twoDaysAgo, twoDaysAgo)
    await localFileStores(root).removeLeftovers(Date.now() - 24 * 60 * 60 * 1000)
    expect((await readdir(staging)).toSorted()).toEqual(['new.part', 'old.txt'])
  })

  test('looks at nothing that comes before what is listed', async () => {
    const store = await openStore()
    for (const name of ['a/1', 'b', 'c', 'd']) await store.put(name, chunks('x'), LIMIT)
    const [lstats, readdirs] = [vi.spyOn(fs, 'lstat'), vi.spyOn(fs, 'readdir')]
    syncBuiltinESMExports()

    const listed = await names(store, '', 'b')
    vi.restoreAllMocks()
    syncBuiltinESMExports()

    expect(listed).toEqual(['c', 'd'])
    expect(lstats.mock.calls.map(([path]) => basename(String(path)))).toEqual(['c', 'd'])
    expect(readdirs).toHaveBeenCalledTimes(1)
  })

  test('refuses a staging directory within the store', async () => {
    const attempt = openLocalFileStore({ directory: mount, stagingDirectory: join(mount, 'staging') })
    await expect(attempt).rejects.toThrow(ConfigError)
  })

  describe('in a mount where others place things', () => {
    beforeEach(async () => {
      await mkdir(join(root, 'outside'))
      await writeFile(join(root, 'outside', 'secret'), 'SECRET')
      await mkdir(mount)
      await writeFile(join(mount, 'plain'), 'plain')
    })

    test.each<[string, string, () => unknown]>([
      ['a symbolic link', 'link', () => symlink(join(root, 'outside', 'secret'), join(mount, 'link'))],
      ['a link within the mount', 'link', () => symlink('plain', join(mount, 'link'))],
      ['a file below a linked folder', 'folder/secret', () => symlink(join(root, 'outside'), join(mount, 'folder'))],
      ['a hard link', 'hard', () => link(join(root, 'outside', 'secret'), join(mount, 'hard'))],
      ['a named pipe', 'pipe', () => execFileSync('mkfifo', [join(mount, 'pipe')])],
      ['a folder', 'folder', () => mkdir(join(mount, 'folder'))],
    ])('%s is not there', async (_what, name, plant) => {
      await plant()
      const store = await openStore()
      expect(await store.open(name)).toBeUndefined()
      expect(await store.stat(name)).toBeUndefined()
      expect(await names(store)).toEqual(['plain'])
    })

    test('writing over a link replaces the link, not its target', async () => {
      await symlink(join(root, 'outside', 'secret'), join(mount, 'link'))
      const store = await openStore()
      await store.put('link', chunks('new'), LIMIT)
      const opened = await store.open('link')
      expect(opened && (await text(opened.stream))).toBe('new')
      expect((await lstat(join(root, 'outside', 'secret'))).size).toBe('SECRET'.length)
    })

    test('writing never goes through a linked folder, nor creates folders behind it', async () => {
      await symlink(join(root, 'outside'), join(mount, 'folder'))
      const store = await openStore()
      for (const name of ['folder/new', 'folder/deep/new']) {
        await expect(store.put(name, chunks('x'), LIMIT)).rejects.toMatchObject({ code: 'invalid_file_name' })
      }
      expect(await readdir(join(root, 'outside'))).toEqual(['secret'])
    })

    test('deleting removes a link and never what is behind one', async () => {
      await symlink(join(root, 'outside', 'secret'), join(mount, 'link'))
      await symlink(join(root, 'outside'), join(mount, 'folder'))
      const store = await openStore()
      await store.delete('link')
      await store.delete('folder/secret')
      expect(await readdir(join(root, 'outside'))).toEqual(['secret'])
      expect((await readdir(mount)).toSorted()).toEqual(['folder', 'plain'])
    })

    test('a file that grows while it is read ends where it ended when it was opened', async () => {
      const store = await openStore()
      const opened = await store.open('plain')
      await writeFile(join(mount, 'plain'), 'plain and a lot more')
      expect(opened && (await text(opened.stream))).toBe('plain')
    })

    test('names that no caller could use are not listed', async () => {
      await writeFile(join(mount, 'a\\b'), 'x')
      await writeFile(join(mount, 'bidi\u202E'), 'x')
      await mkdir(join(mount, 'new\nline'))
      await writeFile(join(mount, 'new\nline', 'file'), 'x')
      expect(await names(await openStore())).toEqual(['plain'])
    })
  })

  test.runIf(process.platform === 'linux')('no descriptor stays open, whatever happens', async () => {
    const store = await openStore()
    await store.put('a/b/c', chunks('x'), LIMIT)
    await store.put('empty', chunks(), LIMIT)
    await expect(store.put('a/b/c/d', chunks('x'), LIMIT)).rejects.toThrow('name')
    await expect(store.put('big', chunks('xx'), { maxBytes: 1 })).rejects.toThrow('too large')
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(store.put('aborted', chunks('xx'), { ...LIMIT, signal })).rejects.toThrow('enough')
    await store.open('empty')
    await store.stat('a/b/c')
    await link(join(mount, 'a', 'b', 'c'), join(mount, 'hard'))
    await store.open('hard')
    await store.delete('a/b/none')
    for await (const file of store.list()) if (file.name !== '') break
    const opened = await store.open('empty')
    opened?.stream.destroy()

    await expect.poll(() => openBelow(root)).toEqual([])
  })
})

async function openBelow(folder: string): Promise<string[]> {
  const descriptors = await readdir('/proc/self/fd')
  const targets = await Promise.all(descriptors.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')))
  return targets.filter((target) => target.startsWith(folder))
}
