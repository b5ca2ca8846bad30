import { createHash, randomBytes } from 'node:crypto'
import { buffer, text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import type { FileStore, StoredFile } from './file-store.ts'

async function* chunks(...parts: (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield Buffer.from(part)
}

async function contentOf(store: FileStore, name: string): Promise<string | undefined> {
  const opened = await store.open(name)
  return opened && text(opened.stream)
}

async function namesIn(store: FileStore, prefix?: string, after?: string): Promise<string[]> {
  const files: StoredFile[] = []
  for await (const file of store.list(prefix, after)) files.push(file)
  return files.map(({ name }) => name)
}

const LIMIT = { maxBytes: 1024 * 1024 }

/**
 * What every implementation of `FileStore` promises.
 *
 * @param open - Opens an empty store.
 */
export function describeFileStore(title: string, open: () => Promise<FileStore>): void {
  describe(`FileStore: ${title}`, () => {
    describeContents(open)
    describeFailures(open)
    describeNames(open)
  })
}

function describeContents(open: () => Promise<FileStore>): void {
  test('gives back what was put', async () => {
    const store = await open()
    const content = randomBytes(700_000)
    const before = Date.now()
    const pieces = chunks(content.subarray(0, 1), content.subarray(1, 500_000), content.subarray(500_000))

    const put = await store.put('uploads/1/report.csv', pieces, LIMIT)

    expect(put).toMatchObject({
      name: 'uploads/1/report.csv',
      sizeBytes: 700_000,
      sha256: createHash('sha256').update(content).digest('hex'),
    })
    expect(Math.abs(put.modifiedAt - before)).toBeLessThan(60_000)
    const opened = await store.open('uploads/1/report.csv')
    expect(opened).toMatchObject({ name: 'uploads/1/report.csv', sizeBytes: 700_000 })
    expect(opened && (await buffer(opened.stream)).equals(content)).toBe(true)
    expect(await store.stat('uploads/1/report.csv')).toMatchObject({ sizeBytes: 700_000 })
  })

  test('gives back a file of many megabytes, and deletes it with others', async () => {
    const store = await open()
    const content = randomBytes(11 * 1024 * 1024)
    await store.put('large', chunks(content), { maxBytes: content.length })
    const opened = await store.open('large')
    expect(opened && (await buffer(opened.stream)).equals(content)).toBe(true)
    await store.put('small', chunks('x'), LIMIT)
    await store.delete('large', 'small')
    expect(await namesIn(store)).toEqual([])
  })

  test('keeps empty files', async () => {
    const store = await open()
    await store.put('empty', chunks(), LIMIT)
    expect(await store.stat('empty')).toMatchObject({ name: 'empty', sizeBytes: 0 })
    expect(await contentOf(store, 'empty')).toBe('')
  })

  test('has nothing under a name that was never put', async () => {
    const store = await open()
    await store.put('a/b', chunks('x'), LIMIT)
    for (const name of ['b', 'a', 'a/c', 'a/b/c']) {
      expect(await store.open(name)).toBeUndefined()
      expect(await store.stat(name)).toBeUndefined()
    }
  })

  test('replaces a file, while readers of the old one finish with the old content', async () => {
    const store = await open()
    await store.put('a', chunks('old'), LIMIT)
    const reader = await store.open('a')
    await store.put('a', chunks('new'), LIMIT)
    expect(reader && (await text(reader.stream))).toBe('old')
    expect(await contentOf(store, 'a')).toBe('new')
  })

  test('of two puts at the same moment one wins as a whole', async () => {
    const store = await open()
    const [one, two] = ['1'.repeat(300_000), '2'.repeat(300_000)]
    await Promise.all([store.put('a', chunks(one), LIMIT), store.put('a', chunks(two), LIMIT)])
    expect([one, two]).toContain(await contentOf(store, 'a'))
  })

  test('deletes a file once and for all', async () => {
    const store = await open()
    await store.put('a/b', chunks('x'), LIMIT)
    await store.put('a/c', chunks('y'), LIMIT)
    await store.delete('a/b')
    await store.delete('a/b')
    await store.delete('never/there')
    await store.delete('a')
    expect(await store.stat('a/b')).toBeUndefined()
    expect(await namesIn(store)).toEqual(['a/c'])
    await store.put('a/d', chunks('y'), LIMIT)
    await store.delete('a/c', 'never/there', 'a/d')
    await store.delete()
    expect(await namesIn(store)).toEqual([])
  })

  test('lists files by prefix, sorted by name', async () => {
    const store = await open()
    const names = ['a-1', 'a.txt', 'a/1', 'a/b/2', 'b', 'uploads/x/1', 'uploads/y/2', 'é']
    for (const name of names.toReversed()) await store.put(name, chunks(name), LIMIT)
    expect(await namesIn(store)).toEqual(names)
    for (const [index, name] of names.entries()) {
      expect(await namesIn(store, '', name)).toEqual(names.slice(index + 1))
    }
    expect(await namesIn(store, 'a/')).toEqual(['a/1', 'a/b/2'])
    expect(await namesIn(store, 'uploads/x')).toEqual(['uploads/x/1'])
    expect(await namesIn(store, 'uplo')).toEqual(['uploads/x/1', 'uploads/y/2'])
    expect(await namesIn(store, 'none')).toEqual([])
    expect(await namesIn(store, '', 'a/b/')).toEqual(names.slice(3))
    expect(await namesIn(store, '', 'a/b/never')).toEqual(names.slice(4))
    expect(await namesIn(store, 'uploads/', 'uploads/x/1')).toEqual(['uploads/y/2'])
    for await (const file of store.list('é')) expect(file).toMatchObject({ sizeBytes: 2 })
  })

  test('lists nothing when empty', async () => {
    expect(await namesIn(await open())).toEqual([])
  })
}

function describeFailures(open: () => Promise<FileStore>): void {
  test('exactly the limit is stored, one byte more is not', async () => {
    const store = await open()
    await store.put('a', chunks('12', '34'), { maxBytes: 4 })
    await expect(store.put('a', chunks('12', '345'), { maxBytes: 4 })).rejects.toMatchObject({ code: 'file_too_large' })
    expect(await contentOf(store, 'a')).toBe('1234')
  })

  test('an endless body is refused as soon as it is too large', async () => {
    const store = await open()
    let taken = 0
    const endless = async function* (): AsyncGenerator<Uint8Array> {
      for (;;) {
        taken += 100_000
        yield Buffer.alloc(100_000)
      }
    }
    await expect(store.put('a', endless(), LIMIT)).rejects.toMatchObject({ code: 'file_too_large' })
    expect(taken).toBeLessThan(2 * LIMIT.maxBytes)
    expect(await namesIn(store)).toEqual([])
  })

  test('a wrong checksum stores nothing, the right one in either case does', async () => {
    const store = await open()
    const sha256 = createHash('sha256').update('content').digest('hex')
    const wrong = store.put('a', chunks('contend'), { ...LIMIT, sha256 })
    await expect(wrong).rejects.toMatchObject({ code: 'checksum_mismatch' })
    expect(await namesIn(store)).toEqual([])
    await store.put('a', chunks('content'), { ...LIMIT, sha256: sha256.toUpperCase() })
    expect(await namesIn(store)).toEqual(['a'])
  })

  test('a body that fails leaves what was there before', async () => {
    const store = await open()
    await store.put('a', chunks('old'), LIMIT)
    const failing = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('new')
      throw new Error('connection lost')
    }
    await expect(store.put('a', failing(), LIMIT)).rejects.toThrow('connection lost')
    expect(await contentOf(store, 'a')).toBe('old')
  })

  test.each(['before it begins', 'while the body says nothing'])('an abort %s throws its reason', async (when) => {
    const store = await open()
    const abort = new AbortController()
    const stalled = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('x')
      abort.abort(new Error('the client left'))
      await new Promise(() => {})
    }
    if (when === 'before it begins') abort.abort(new Error('the client left'))
    await expect(store.put('a', stalled(), { ...LIMIT, signal: abort.signal })).rejects.toThrow('the client left')
    expect(await namesIn(store)).toEqual([])
  })
}

function describeNames(open: () => Promise<FileStore>): void {
  test.each([
    '',
    '.',
    '..',
    '/etc/passwd',
    '../outside',
    'a/../../outside',
    'a/./b',
    'a//b',
    'a/',
    'a\\b',
    'a\0b',
    'a\nb',
    'a\u200Bb',
    'a\u202Eb',
    'e\u0301',
    '\uD800',
    'x'.repeat(256),
    'x/'.repeat(600) + 'x',
  ])('the name %j is refused everywhere', async (name) => {
    const store = await open()
    const refusal = { code: 'invalid_file_name' }
    await expect(store.put(name, chunks('x'), LIMIT)).rejects.toMatchObject(refusal)
    await expect(store.open(name)).rejects.toMatchObject(refusal)
    await expect(store.stat(name)).rejects.toMatchObject(refusal)
    await expect(store.delete(name)).rejects.toMatchObject(refusal)
  })

  test.each(['%2e%2e/a', 'with space.txt', '...', '-rf', 'ünï', 'x'.repeat(255), '日本語/ファイル.txt'])(
    'the name %j is one like others',
    async (name) => {
      const store = await open()
      await store.put(name, chunks('x'), LIMIT)
      expect(await contentOf(store, name)).toBe('x')
      expect(await namesIn(store)).toEqual([name])
    },
  )
}
