import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { link, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import type { AgencyMount } from './agency-mount.ts'
import { chunks, openTestMount, OWNER } from './test-mount.contract.ts'

const LIMIT = { maxBytes: 1_000_000 }

async function contentOf(mount: AgencyMount, path: string): Promise<string | undefined> {
  const file = await mount.open(path)
  return file && text(file.stream)
}

async function pathsIn(mount: AgencyMount, prefix?: string): Promise<string[]> {
  const paths: string[] = []
  for await (const { path } of mount.list(prefix)) paths.push(path)
  return paths
}

describe('AgencyMount', () => {
  test('keeps files under their paths', async () => {
    const { mount, write } = await openTestMount()
    const stored = await mount.put('/app/mnt/uploads/01j/r.csv', chunks('a,b\n', '1,2\n'), LIMIT)
    const facts = { path: '/app/mnt/uploads/01j/r.csv', name: 'r.csv', sizeBytes: 8 }
    expect(stored).toMatchObject({ ...facts, sha256: createHash('sha256').update('a,b\n1,2\n').digest('hex') })
    expect(await mount.stat('/app/mnt/uploads/01j/r.csv')).toMatchObject(facts)
    expect(await contentOf(mount, '/app/mnt/uploads/01j/r.csv')).toBe('a,b\n1,2\n')
    await write('made/by agent.txt', 'x')
    expect(await pathsIn(mount)).toEqual(['/app/mnt/made/by agent.txt', '/app/mnt/uploads/01j/r.csv'])
    expect(await pathsIn(mount, '/app/mnt/uploads')).toEqual(['/app/mnt/uploads/01j/r.csv'])
    expect(await mount.measure()).toEqual({ usedBytes: 9, fileCount: 2 })
    expect(await mount.delete('/app/mnt/uploads/01j/r.csv')).toMatchObject(facts)
    expect(await mount.delete('/app/mnt/uploads/01j/r.csv')).toBeUndefined()
    expect(await pathsIn(mount, '/app/mnt/uploads/')).toEqual([])
  })

  test('says which files of a request are missing', async () => {
    const { mount, sandbox, write } = await openTestMount()
    await write('a.txt', 'x')
    await mkdir(join(sandbox, 'folder'))
    const files = ['a.txt', 'b.txt', 'folder'].map((name) => ({ name, path: `/app/mnt/${name}` }))
    expect(await mount.missing(files)).toEqual(['/app/mnt/b.txt', '/app/mnt/folder'])
    expect(await mount.missing([])).toEqual([])
  })

  test('other paths than canonical ones are refused everywhere', async () => {
    const { mount } = await openTestMount()
    const refused = expect.objectContaining({ code: 'invalid_sandbox_file' })
    for (const path of ['/etc/passwd', '/app/mnt/../x', '/app/mnt/a/']) {
      await expect(mount.stat(path)).rejects.toEqual(refused)
      await expect(mount.open(path)).rejects.toEqual(refused)
      await expect(mount.delete(path)).rejects.toEqual(refused)
      await expect(mount.put(path, chunks('x'), LIMIT)).rejects.toEqual(refused)
    }
    await expect(pathsIn(mount, '/etc')).rejects.toEqual(refused)
  })

  test('a failed upload leaves nothing behind', async () => {
    const { mount, dataFolder } = await openTestMount()
    const broken = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('some')
      throw new Error('the client has gone')
    }
    const attempts = [
      [chunks('12345'), { maxBytes: 4 }, { code: 'upload_too_large', status: 413 }],
      [chunks('x'), { ...LIMIT, sha256: 'ab'.repeat(32) }, { code: 'checksum_mismatch' }],
      [broken(), LIMIT, { message: 'the client has gone' }],
    ] as const
    for (const [body, options, refusal] of attempts) {
      await expect(mount.put('/app/mnt/a', body, options)).rejects.toMatchObject(refusal)
    }
    const full = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('some')
      throw Object.assign(new Error('write'), { code: 'ENOSPC' })
    }
    await expect(mount.put('/app/mnt/a', full(), LIMIT)).rejects.toMatchObject({ status: 507 })
    expect(await pathsIn(mount)).toEqual([])
    expect(await readdir(join(dataFolder, 'staging'))).toEqual([])
  })
})

describe('what a sandbox may plant', () => {
  test('links, second names, pipes and folders count as missing', async () => {
    const { mount, sandbox, dataFolder, write } = await openTestMount()
    const secret = join(dataFolder, 'master.key')
    await writeFile(secret, 'SECRET')
    await mkdir(join(dataFolder, 'private'))
    await writeFile(join(dataFolder, 'private', 'x.txt'), 'SECRET')
    await write('real.txt', 'fine')
    await symlink(secret, join(sandbox, 'link.txt'))
    await symlink('real.txt', join(sandbox, 'inner-link.txt'))
    await symlink(join(dataFolder, 'private'), join(sandbox, 'folder-link'))
    await link(secret, join(sandbox, 'second-name.txt'))
    execFileSync('mkfifo', [join(sandbox, 'pipe.txt')])
    await mkdir(join(sandbox, 'folder.txt'))
    await symlink('/dev/zero', join(sandbox, 'device.txt'))

    const planted = ['link.txt', 'inner-link.txt', 'folder-link/x.txt', 'second-name.txt', 'pipe.txt', 'folder.txt']
    for (const name of [...planted, 'device.txt']) {
      expect(await mount.stat(`/app/mnt/${name}`)).toBeUndefined()
      expect(await mount.open(`/app/mnt/${name}`)).toBeUndefined()
    }
    expect(await pathsIn(mount)).toEqual(['/app/mnt/real.txt'])
    expect(await mount.measure()).toEqual({ usedBytes: 4, fileCount: 1 })
  })

  test('uploads and deletions never follow a link', async () => {
    const { mount, sandbox, dataFolder } = await openTestMount()
    await mkdir(join(dataFolder, 'private'))
    await writeFile(join(dataFolder, 'private', 'x.txt'), 'SECRET')
    await symlink(join(dataFolder, 'private'), join(sandbox, 'uploads'))
    await symlink(join(dataFolder, 'private', 'x.txt'), join(sandbox, 'x.txt'))

    const attempt = mount.put('/app/mnt/uploads/x.txt', chunks('mine'), LIMIT)
    await expect(attempt).rejects.toMatchObject({ code: 'invalid_file_name' })
    await mount.put('/app/mnt/x.txt', chunks('mine'), LIMIT)
    expect(await contentOf(mount, '/app/mnt/x.txt')).toBe('mine')
    await mount.delete('/app/mnt/uploads/x.txt')
    expect(await readFile(join(dataFolder, 'private', 'x.txt'), 'utf8')).toBe('SECRET')
  })

  test('a folder that is swapped for a link during an upload leads nowhere', async () => {
    const { mount, sandbox, dataFolder } = await openTestMount()
    await mkdir(join(dataFolder, 'private'))
    await mkdir(join(sandbox, 'uploads'))
    const swapping = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('first')
      await rename(join(sandbox, 'uploads'), join(sandbox, 'moved'))
      await symlink(join(dataFolder, 'private'), join(sandbox, 'uploads'))
      yield Buffer.from('second')
    }
    await mount.put('/app/mnt/uploads/x.txt', swapping(), LIMIT).catch(() => {})
    expect(await readdir(join(dataFolder, 'private'))).toEqual([])
  })

  test('what was opened stays the same file, whatever takes its name', async () => {
    const { mount, sandbox, dataFolder, write } = await openTestMount()
    await writeFile(join(dataFolder, 'master.key'), 'SECRET')
    await write('a.txt', 'fine')
    const file = await mount.open('/app/mnt/a.txt')
    await rm(join(sandbox, 'a.txt'))
    await symlink(join(dataFolder, 'master.key'), join(sandbox, 'a.txt'))
    expect(file && (await text(file.stream))).toBe('fine')
  })
})

describe('AgencyMounts', () => {
  test('every integration has files of its own', async () => {
    const { mounts, mount, write } = await openTestMount()
    await write('a.txt', 'x')
    const other = await mounts.of({ ...OWNER, integrationId: 'int_01jother' })
    expect(await pathsIn(other)).toEqual([])
    expect(await mounts.of(OWNER)).toBe(mount)
  })

  test('nothing but ids of ours leads to a mount', async () => {
    const { mounts } = await openTestMount()
    for (const integrationId of ['..', 'int_../../etc', 'int_', '', 'int_A', 'int_1/x']) {
      expect(() => mounts.of({ ...OWNER, integrationId })).toThrow('belongs to')
    }
  })
})
