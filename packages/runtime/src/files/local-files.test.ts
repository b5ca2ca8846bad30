import { execFileSync } from 'node:child_process'
import { appendFile, link, mkdir, mkdtemp, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ByteBudget } from '../egress/byte-budget.ts'
import { AttachmentError } from './attachment-error.ts'
import { openLocalFile, usableDirectories } from './local-files.ts'

/** `root/allowed` may be read, `root/secret` may not. */
let root: string
let allowed: string
beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'bureau-local-')))
  allowed = join(root, 'allowed')
  await mkdir(join(allowed, 'deep'), { recursive: true })
  await mkdir(join(root, 'secret'))
  await writeFile(join(allowed, 'a.txt'), 'inside')
  await writeFile(join(allowed, 'deep', 'b c.txt'), 'deep')
  await writeFile(join(root, 'secret', 'key.txt'), 'SECRET')
})
afterEach(() => rm(root, { recursive: true }))

async function contentOf(source: string, directories = [allowed]): Promise<string> {
  const file = await openLocalFile(source, directories)
  try {
    return Buffer.from(await file.read({ maxBytes: 1000 })).toString()
  } finally {
    await file.close()
  }
}

async function refusalOf(source: string, directories = [allowed]): Promise<AttachmentError> {
  const error = await openLocalFile(source, directories).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(AttachmentError)
  return error as AttachmentError
}

describe('usableDirectories', () => {
  test('lists what is a directory right now, resolved and once', async () => {
    await symlink(allowed, join(root, 'alias'))
    const entries = [allowed, join(root, 'alias'), join(root, 'later'), join(allowed, 'a.txt'), '~']
    expect(await usableDirectories(entries)).toEqual([allowed, await realpath(homedir())])

    await mkdir(join(root, 'later'))
    expect(await usableDirectories(entries)).toContain(join(root, 'later'))
  })
})

describe('openLocalFile', () => {
  test('reads files below an allowed directory', async () => {
    expect(await contentOf(join(allowed, 'a.txt'))).toBe('inside')
    expect(await contentOf(`file://${allowed}/deep/b%20c.txt`)).toBe('deep')
    expect(await contentOf(`file://localhost${allowed}/a.txt`)).toBe('inside')
    expect(await contentOf(`${allowed}/deep/../a.txt`)).toBe('inside')
  })

  test('follows links that stay inside, and allowed directories that are links', async () => {
    await symlink('a.txt', join(allowed, 'link.txt'))
    await symlink(allowed, join(root, 'alias'))
    expect(await contentOf(join(allowed, 'link.txt'))).toBe('inside')
    expect(await contentOf(join(root, 'alias', 'a.txt'), [join(root, 'alias')])).toBe('inside')
  })

  test.each([[undefined], [[]], [['/missing-directory-for-tests']]])('is off with the directories %j', async (list) => {
    await expect(openLocalFile('/any', list)).rejects.toMatchObject({
      problem: 'local_disabled',
      message: 'Local file access is disabled for this server.',
    })
  })

  test('a directory that appears later works from then on', async () => {
    const later = join(root, 'later')
    expect((await refusalOf(join(later, 'c.txt'), [later])).problem).toBe('local_disabled')
    await mkdir(later)
    await writeFile(join(later, 'c.txt'), 'created')
    expect(await contentOf(join(later, 'c.txt'), [later])).toBe('created')
  })

  test('an entry that is no directory fails every request', async () => {
    const refusal = await refusalOf(join(allowed, 'a.txt'), [allowed, join(root, 'secret', 'key.txt')])
    expect(refusal.problem).toBe('local_directory_invalid')
    expect(refusal.message).toBe(`Allowed path must be a directory: ${join(root, 'secret', 'key.txt')}`)
  })

  test.each<[string, (paths: { root: string; allowed: string }) => string]>([
    ['another path', () => '/etc/passwd'],
    ['a path that does not exist', () => '/no/such/file'],
    ['traversal', (at) => `${at.allowed}/../secret/key.txt`],
    ['percent-encoded traversal', (at) => `file://${at.allowed}/%2e%2e/secret/key.txt`],
    ['percent-encoded slashes', (at) => `file://${at.allowed}/..%2Fsecret%2Fkey.txt`],
    ['traversal over a missing folder', (at) => `${at.allowed}/none/../../secret/key.txt`],
    ['a sibling whose name begins alike', (at) => `${at.allowed}-not/a.txt`],
    ['the parent', (at) => at.root],
    ['a drive letter', () => 'C:/Windows/win.ini'],
    ['a file URL without path', () => 'file://host'],
    ['a zero byte', (at) => `${at.allowed}/a.txt\0.png`],
    ['an encoded zero byte', (at) => `file://${at.allowed}/a.txt%00`],
    ['a very long path', (at) => `${at.allowed}/${'a/'.repeat(5000)}`],
  ])('%s is not allowed', async (_what, source) => {
    const refusal = await refusalOf(source({ root, allowed }))
    expect(refusal.problem).toBe('local_not_allowed')
    expect(refusal.message).toContain('Local file not in allowed directories: ')
  })

  test('percent signs in a plain path are names, not encodings', async () => {
    expect((await refusalOf(`${allowed}/%2e%2e/secret/key.txt`)).problem).toBe('local_not_found')
  })

  test('a link to a file or folder outside is not allowed, and its target is not named', async () => {
    await symlink(join(root, 'secret', 'key.txt'), join(allowed, 'link.txt'))
    await symlink(join(root, 'secret'), join(allowed, 'folder'))
    for (const source of [join(allowed, 'link.txt'), join(allowed, 'folder', 'key.txt')]) {
      const refusal = await refusalOf(source)
      expect(refusal.problem).toBe('local_not_allowed')
      expect(refusal.message).not.toContain('secret')
    }
  })

  // Whether a path outside exists must not show, neither directly nor over a link.
  test('paths outside look the same whether they exist or not', async () => {
    await symlink(join(root, 'secret', 'none.txt'), join(allowed, 'dangling.txt'))
    await symlink(join(root, 'secret'), join(allowed, 'folder'))
    await symlink(join(root, 'none'), join(allowed, 'gone'))
    const sources = [
      'dangling.txt',
      'gone/none.txt',
      'folder/key.txt',
      'folder/none.txt',
      '../secret/none.txt',
      '../none/none.txt',
    ]
    for (const source of sources) expect((await refusalOf(`${allowed}/${source}`)).problem).toBe('local_not_allowed')
  })

  test.each([
    ['a missing file', 'none.txt', 'local_not_found', 'Local file not found: '],
    ['a file used as a folder', 'a.txt/b', 'local_not_found', 'Local file not found: '],
    ['a folder', 'deep', 'local_not_a_file', 'Local path must be a file: '],
    ['the allowed directory', '', 'local_not_a_file', 'Local path must be a file: '],
    ['a named pipe', 'pipe', 'local_not_a_file', 'Local path must be a file: '],
  ])('%s is refused', async (_what, path, problem, message) => {
    execFileSync('mkfifo', [join(allowed, 'pipe')])
    const refusal = await refusalOf(`${allowed}/${path}`)
    expect(refusal.problem).toBe(problem)
    expect(refusal.message).toBe(`${message}${allowed}/${path}`)
  })

  test('hard links are files like others', async () => {
    await link(join(allowed, 'a.txt'), join(allowed, 'second.txt'))
    expect(await contentOf(join(allowed, 'second.txt'))).toBe('inside')
  })

  test('a loop of links is not allowed', async () => {
    await symlink('two', join(allowed, 'one'))
    await symlink('one', join(allowed, 'two'))
    expect((await refusalOf(join(allowed, 'one'))).problem).toBe('local_not_allowed')
  })

  // Somebody swaps a file and a link to the secret all the time: every outcome but the secret is fine.
  test('swapping the file for a link never reveals what is outside', async () => {
    const target = join(allowed, 'swapped.txt')
    await writeFile(target, 'inside')
    const done = new AbortController()
    const swapper = (async () => {
      while (!done.signal.aborted) {
        await symlink(join(root, 'secret', 'key.txt'), join(root, 'link'))
        await rename(join(root, 'link'), target)
        await writeFile(join(root, 'plain'), 'inside')
        await rename(join(root, 'plain'), target)
      }
    })()
    const outcomes = new Set<string>()
    for (let attempt = 0; attempt < 300; attempt++) {
      outcomes.add(await contentOf(target).catch((error: AttachmentError) => error.problem))
    }
    done.abort()
    await swapper
    const harmless = new Set(['inside', 'local_not_allowed', 'local_not_a_file'])
    expect([...outcomes].filter((outcome) => !harmless.has(outcome))).toEqual([])
  })

  test('what is read is the opened file, whatever happens to the path afterwards', async () => {
    const file = await openLocalFile(join(allowed, 'a.txt'), [allowed])
    await rm(join(allowed, 'a.txt'))
    await symlink(join(root, 'secret', 'key.txt'), join(allowed, 'a.txt'))
    expect(Buffer.from(await file.read({ maxBytes: 100 })).toString()).toBe('inside')
    await file.close()
  })
})

describe('LocalFile', () => {
  test('refuses more bytes than allowed, also when the file has grown since it was opened', async () => {
    const file = await openLocalFile(join(allowed, 'a.txt'), [allowed])
    expect(file.sizeBytes).toBe(6)
    await appendFile(join(allowed, 'a.txt'), 'x'.repeat(1000))
    await expect(file.read({ maxBytes: 6 })).rejects.toMatchObject({ problem: 'too_large' })
    await file.close()
  })

  test('takes what it reads from the budget', async () => {
    const file = await openLocalFile(join(allowed, 'a.txt'), [allowed])
    await expect(file.read({ maxBytes: 100, budget: new ByteBudget(5) })).rejects.toMatchObject({
      problem: 'too_large',
    })
    await file.close()
  })

  test('stops when the signal aborts', async () => {
    const file = await openLocalFile(join(allowed, 'a.txt'), [allowed])
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(file.read({ maxBytes: 100, signal })).rejects.toThrow('enough')
    await file.close()
  })
})
