import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { ConfigError } from '@bureau/protocol'
import { describeTokenStore } from '../tokens/token-store.contract.ts'
import { FileTokenStore } from '../tokens/token-store.file.ts'

const KEY = 'ab'.repeat(32)
const SAVED = {
  tokens: { access_token: 'very-secret', token_type: 'Bearer' },
  client: { client_id: 'c', client_secret: 'client-secret' },
}
const ADA = { userId: 'ada@example.com', server: 'docs-0123' }

async function newDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'bureau-tokens-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  return directory
}

describeTokenStore('file', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'bureau-tokens-'))
  return {
    store: new FileTokenStore({ directory }),
    elsewhere: new FileTokenStore({ directory }),
    close: () => rm(directory, { recursive: true }),
  }
})

async function filesBelow(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}

test('writes encrypted files of mode 0600 in folders of mode 0700', async () => {
  const directory = join(await newDirectory(), 'made')
  const store = new FileTokenStore({ directory })
  await store.exclusive(ADA, () => store.save(ADA, SAVED))
  const files = await filesBelow(directory)
  expect(files.map((path) => path.slice(directory.length + 1)).toSorted()).toEqual([
    expect.stringMatching(/^ada_example_com-[0-9a-f]{16}\/docs-0123\/client\.json$/),
    expect.stringMatching(/^ada_example_com-[0-9a-f]{16}\/docs-0123\/lock$/),
    expect.stringMatching(/^ada_example_com-[0-9a-f]{16}\/docs-0123\/tokens\.json$/),
    'key',
  ])
  for (const path of files) {
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect((await stat(join(path, '..'))).mode & 0o777).toBe(0o700)
    expect(await readFile(path, 'utf8')).not.toMatch(/very-secret|client-secret/)
  }
})

test('a configured key is used and no key is written', async () => {
  const directory = await newDirectory()
  await new FileTokenStore({ directory, key: KEY }).save(ADA, SAVED)
  expect(await readdir(directory)).toHaveLength(1)
  expect(await new FileTokenStore({ directory, key: KEY }).load(ADA)).toEqual(SAVED)
})

test('after a change of keys, old tokens are read and new ones sealed with the new key', async () => {
  const directory = await newDirectory()
  const next = 'cd'.repeat(32)
  await new FileTokenStore({ directory, key: KEY }).save(ADA, SAVED)
  const rotating = new FileTokenStore({ directory, key: `${next},${KEY}` })
  await rotating.save(ADA, await rotating.load(ADA))
  expect(await new FileTokenStore({ directory, key: next }).load(ADA)).toEqual(SAVED)
})

test('what another key has sealed counts as absent, and is reported', async () => {
  const directory = await newDirectory()
  await new FileTokenStore({ directory, key: KEY }).save(ADA, SAVED)
  const reported: string[] = []
  const store = new FileTokenStore({
    directory,
    key: 'cd'.repeat(32),
    onUnreadable: (path, error) => reported.push(`${path}: ${error.message}`),
  })
  expect(await store.load(ADA)).toEqual({})
  expect(reported.join()).toMatch(/tokens\.json: it was sealed with a key that is not configured/)
})

test("a file copied from another user's folder cannot be opened", async () => {
  const directory = await newDirectory()
  const store = new FileTokenStore({ directory })
  const eve = { ...ADA, userId: 'eve' }
  await store.save(ADA, SAVED)
  await store.save(eve, { tokens: { access_token: 'mine', token_type: 'Bearer' } })
  const [adas, eves] = (await filesBelow(directory)).filter((path) => path.endsWith('tokens.json')).toSorted()
  await writeFile(eves!, await readFile(adas!))
  expect(await store.load(eve)).toEqual({})
})

test.each([
  ['not JSON', 'garbage'],
  ['altered', undefined],
])('a file that is %s counts as absent', async (_how, content) => {
  const directory = await newDirectory()
  const store = new FileTokenStore({ directory })
  await store.save(ADA, { tokens: SAVED.tokens })
  const [path] = (await filesBelow(directory)).filter((file) => file.endsWith('tokens.json'))
  const sealed = JSON.parse(await readFile(path!, 'utf8')) as { data: string }
  const altered = { ...sealed, data: `${sealed.data.startsWith('A') ? 'B' : 'A'}${sealed.data.slice(1)}` }
  await writeFile(path!, content ?? JSON.stringify(altered))
  expect(await store.load(ADA)).toEqual({})
})

test('a planted link does not lead a write out of the folder', async () => {
  const directory = await newDirectory()
  const outside = await newDirectory()
  const store = new FileTokenStore({ directory })
  await store.save(ADA, SAVED)
  const [user] = (await readdir(directory)).filter((name) => name !== 'key')
  await rm(join(directory, user!), { recursive: true })
  await mkdir(join(outside, ADA.server))
  await symlink(outside, join(directory, user!))
  await expect(store.save(ADA, SAVED)).rejects.toThrow('leads out of the token folder')
  expect(await filesBelow(outside)).toEqual([])
})

test('processes that start together agree on one generated key', async () => {
  const directory = join(await newDirectory(), 'made')
  const users = Array.from({ length: 8 }, (_, index) => ({ userId: `u${index}`, server: 'docs' }))
  await Promise.all(users.map((key) => new FileTokenStore({ directory }).save(key, SAVED)))
  for (const key of users) expect(await new FileTokenStore({ directory }).load(key)).toEqual(SAVED)
})

test('a key that is not 32 bytes is a ConfigError', () => {
  expect(() => new FileTokenStore({ directory: '/nowhere', key: 'short' })).toThrow(ConfigError)
})

test('a process that is killed inside exclusive work frees its place', async () => {
  const directory = await newDirectory()
  const code = `
    import { FileTokenStore } from ${JSON.stringify(import.meta.resolve('./token-store.file.ts'))}
    const store = new FileTokenStore({ directory: ${JSON.stringify(directory)} })
    await store.exclusive(${JSON.stringify(ADA)}, () => {
      console.log('inside')
      return new Promise(() => setInterval(() => {}, 1_000))
    })`
  const child = spawn(process.execPath, ['--conditions=@bureau/source', '--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  let entered = false
  const next = new FileTokenStore({ directory }).exclusive(ADA, async () => void (entered = true))
  expect(entered).toBe(false)
  child.kill('SIGKILL')
  await next
  expect(entered).toBe(true)
})
