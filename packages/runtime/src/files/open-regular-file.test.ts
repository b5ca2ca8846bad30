import { execFileSync } from 'node:child_process'
import { link, mkdir, mkdtemp, open, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { isDescriptorOf, isFileAt, openRegularFile } from './open-regular-file.ts'

let folder: string
beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'bureau-open-')))
  await writeFile(join(folder, 'file'), 'content')
})
afterEach(() => rm(folder, { recursive: true }))

const linked = expect.objectContaining({ name: 'UnsafeFileError', problem: 'linked' })
const notRegular = expect.objectContaining({ name: 'UnsafeFileError', problem: 'not_regular' })

describe('openRegularFile', () => {
  test('opens a file and tells its size', async () => {
    const { handle, stats } = await openRegularFile(join(folder, 'file'))
    expect(stats.size).toBe(7)
    expect(await handle.readFile('utf8')).toBe('content')
    await handle.close()
  })

  test('refuses a symbolic link', async () => {
    await symlink('file', join(folder, 'link'))
    await expect(openRegularFile(join(folder, 'link'))).rejects.toEqual(linked)
  })

  test('refuses a file below a linked directory', async () => {
    await mkdir(join(folder, 'real'))
    await writeFile(join(folder, 'real', 'file'), 'content')
    await symlink('real', join(folder, 'link'))
    await expect(openRegularFile(join(folder, 'link', 'file'))).rejects.toEqual(linked)
  })

  test('refuses a named pipe at once, although nobody writes to it', async () => {
    execFileSync('mkfifo', [join(folder, 'pipe')])
    await expect(openRegularFile(join(folder, 'pipe'))).rejects.toEqual(notRegular)
  })

  test.each(['/dev/null', '/'])('refuses %s', async (path) => {
    await expect(openRegularFile(path)).rejects.toEqual(notRegular)
  })

  test('a missing file is the error of the system', async () => {
    await expect(openRegularFile(join(folder, 'none'))).rejects.toMatchObject({ code: 'ENOENT' })
  })
})

describe.each([
  ['isDescriptorOf', isDescriptorOf],
  ['isFileAt, for systems whose kernel does not tell', isFileAt],
])('%s', (_name, isSame) => {
  test('is true for the file itself', async () => {
    await using handle = await open(join(folder, 'file'))
    expect(await isSame(handle, join(folder, 'file'))).toBe(true)
  })

  test('is false once another file has taken the name', async () => {
    await using handle = await open(join(folder, 'file'))
    await writeFile(join(folder, 'other'), 'other')
    await rename(join(folder, 'other'), join(folder, 'file'))
    expect(await isSame(handle, join(folder, 'file'))).toBe(false)
  })

  test('is false once the file is gone', async () => {
    await using handle = await open(join(folder, 'file'))
    await rm(join(folder, 'file'))
    expect(await isSame(handle, join(folder, 'file'))).toBe(false)
  })

  test('is false for a path over a linked directory', async () => {
    await mkdir(join(folder, 'real'))
    await symlink('real', join(folder, 'alias'))
    await link(join(folder, 'file'), join(folder, 'real', 'file'))
    await using handle = await open(join(folder, 'alias', 'file'))
    expect(await isSame(handle, join(folder, 'alias', 'file'))).toBe(false)
  })
})
