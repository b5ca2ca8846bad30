import { execFileSync } from 'node:child_process'
import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { callTool, definitionOf } from '@bureau/framework'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { AgencyMount } from './agency-mount.ts'
import { mountTools } from './mount-tools.ts'
import { openTestMount } from './test-mount.contract.ts'

/** Calls a tool as a model does. */
async function call(
  mount: AgencyMount,
  name: string,
  input: unknown,
  signal: AbortSignal | null = null,
): Promise<string> {
  const definition = mountTools(mount)
    .map((tool) => definitionOf(tool))
    .find((each) => each?.name === name)
  if (!definition) throw new Error(`there is no tool ${name}`)
  return (await callTool(definition, input, { userContext: {}, run: null, signal, idempotencyKey: null })) as string
}

test('the tools have names that agents know', async () => {
  const { mount } = await openTestMount()
  expect(mountTools(mount).map(({ name }) => name)).toEqual(['list_files', 'read_file', 'search_files'])
})

describe('list_files', () => {
  test('lists paths that the other tools take, with size and time', async () => {
    const { mount, write } = await openTestMount()
    expect(await call(mount, 'list_files', {})).toBe('There are no files under /app/mnt/')
    await write('uploads/a.txt', 'x')
    await write('b.txt', 'xyz')
    const all = await call(mount, 'list_files', {})
    expect(all.split('\n').map((line) => line.replace(/, \d{4}-.*Z\)/, ')'))).toEqual([
      '/app/mnt/b.txt (3 bytes)',
      '/app/mnt/uploads/a.txt (1 bytes)',
    ])
    for (const path of ['/app/mnt', '/app/mnt/']) expect(await call(mount, 'list_files', { path })).toBe(all)
    expect(await call(mount, 'list_files', { path: '/app/mnt/uploads/' })).not.toContain('b.txt')
  })

  test('says when there are more', async () => {
    const { mount, write } = await openTestMount()
    for (let index = 0; index < 5; index++) await write(`${index}`, '')
    const three = (await call(mount, 'list_files', { limit: 3 })).split('\n')
    expect(three).toHaveLength(4)
    expect(three[3]).toContain('more files')
    expect((await call(mount, 'list_files', { limit: 5 })).split('\n')).toHaveLength(5)
  })
})

describe('read_file', () => {
  test('reads lines from where it is asked to', async () => {
    const { mount, write } = await openTestMount()
    const lines = Array.from({ length: 1200 }, (_, index) => `line ${index + 1} é`)
    await write('a.txt', `${lines.join('\r\n')}\r\n`)
    const path = '/app/mnt/a.txt'
    const first = await call(mount, 'read_file', { path })
    expect(first).toBe(`${lines.slice(0, 500).join('\n')}\n[The file goes on. Continue with offset 501.]`)
    const last = await call(mount, 'read_file', { path, offset: 1199, limit: 10 })
    expect(last).toBe('line 1199 é\nline 1200 é')
    expect(await call(mount, 'read_file', { path, offset: 1201 })).toBe('[The file has 1200 lines.]')
  })

  test('answers no more than 64 KiB, and goes on from there', async () => {
    const { mount, write } = await openTestMount()
    await write('a.txt', `${'x'.repeat(1500)}\n`.repeat(1000))
    await write('long.txt', `${'y'.repeat(3_000_000)}\nshort\n`)
    const answer = await call(mount, 'read_file', { path: '/app/mnt/a.txt' })
    expect(answer.length).toBeLessThan(66_000)
    expect(answer).toContain('Continue with offset 44.')
    const long = await call(mount, 'read_file', { path: '/app/mnt/long.txt' })
    expect(long).toBe(`${'y'.repeat(2000)} [The line goes on.]\nshort`)
  })

  test.each([
    ['empty.txt', '', '[The file is empty.]'],
    ['mark.txt', '\ufeffhi', 'hi'],
    ['wide.txt', Buffer.from('\ufeffhé\n漢', 'utf16le'), 'hé\n漢'],
    ['broken.txt', Buffer.from([0x61, 0xff, 0x62]), 'a\ufffdb'],
    ['no-end.txt', 'a\nb', 'a\nb'],
  ])('reads %s', async (name, content, answer) => {
    const { mount, write } = await openTestMount()
    await write(name, content)
    expect(await call(mount, 'read_file', { path: `/app/mnt/${name}` })).toBe(answer)
  })

  test('says what other files are', async () => {
    const { mount, write } = await openTestMount()
    await write('r.pdf', '%PDF-1.7\n')
    await write('x.bin', Buffer.from([1, 2, 0, 3]))
    const pdf = await call(mount, 'read_file', { path: '/app/mnt/r.pdf' })
    expect(pdf).toMatch(/^\/app\/mnt\/r\.pdf \(9 bytes, .*\) is not text but application\/pdf/)
    expect(await call(mount, 'read_file', { path: '/app/mnt/x.bin' })).toContain('application/octet-stream')
  })

  test('nothing outside the mount can be read', async () => {
    const { mount, sandbox, dataFolder } = await openTestMount()
    await writeFile(join(dataFolder, 'master.key'), 'SECRET')
    await symlink(join(dataFolder, 'master.key'), join(sandbox, 'key.txt'))
    await symlink(dataFolder, join(sandbox, 'data'))
    execFileSync('mkfifo', [join(sandbox, 'pipe.txt')])
    for (const path of ['/etc/passwd', '/app/mnt/../master.key', 'master.key', '/app/mnt/']) {
      expect(await call(mount, 'read_file', { path })).toContain('not a path under /app/mnt/')
    }
    for (const name of ['key.txt', 'data/master.key', 'pipe.txt', 'none.txt']) {
      expect(await call(mount, 'read_file', { path: `/app/mnt/${name}` })).toContain('There is no file')
    }
    expect(await call(mount, 'list_files', {})).toContain('no files')
    expect(await call(mount, 'search_files', { query: 'SECRET' })).toBe('Nothing found in 0 text files.')
  })
})

describe('search_files', () => {
  test('finds lines by what they contain', async () => {
    const { mount, write } = await openTestMount()
    await write('a.txt', 'one\nTwo apples\nthree\n')
    await write('b/c.txt', 'two pears (.*)\n')
    await write('d.bin', Buffer.from('two\0'))
    const search = (input: Record<string, unknown>) => call(mount, 'search_files', input)
    expect(await search({ query: 'two' })).toBe('/app/mnt/a.txt:2: Two apples\n/app/mnt/b/c.txt:1: two pears (.*)')
    expect(await search({ query: 'two', ignore_case: false })).toBe('/app/mnt/b/c.txt:1: two pears (.*)')
    expect(await search({ query: 'two', path: '/app/mnt/a.txt' })).toBe('/app/mnt/a.txt:2: Two apples')
    expect(await search({ query: 't*s' })).toBe('/app/mnt/a.txt:2: Two apples\n/app/mnt/b/c.txt:1: two pears (.*)')
    expect(await search({ query: '*p*l*' })).toBe('/app/mnt/a.txt:2: Two apples')
    expect(await search({ query: '(.' })).toBe('/app/mnt/b/c.txt:1: two pears (.*)')
    expect(await search({ query: 's*t' })).toBe('Nothing found in 2 text files.')
    expect(await search({ query: 'two', limit: 1 })).toBe('/app/mnt/a.txt:2: Two apples\n[There are more matches.]')
    expect(await search({ query: 'x', path: '/etc' })).toContain('not a path')
  })

  test('shows the surroundings of a match in a long line', async () => {
    const { mount, write } = await openTestMount()
    await write('a.json', `${'x'.repeat(5000)} needle ${'y'.repeat(5000)}`)
    const found = await call(mount, 'search_files', { query: 'needle' })
    expect(found).toMatch(/^\/app\/mnt\/a\.json:1: …x+ needle y+…$/)
    expect(found.length).toBeLessThan(350)
  })

  test('a hostile pattern takes no longer than another', async () => {
    const { mount, write } = await openTestMount()
    await write('a.txt', `${'a'.repeat(50_000)}\n`.repeat(20))
    const startedAt = performance.now()
    const found = await call(mount, 'search_files', { query: `${'a*'.repeat(99)}b` })
    expect(found).toBe('Nothing found in 1 text files.')
    expect(performance.now() - startedAt).toBeLessThan(5_000)
  })

  test('looks at no more than 64 MiB', async () => {
    const { mount, write } = await openTestMount()
    const line = `${'x'.repeat(99)}\n`
    await write('a.txt', line.repeat(700_000))
    await write('b.txt', 'needle')
    const found = await call(mount, 'search_files', { query: 'needle' })
    expect(found).toMatch(/^\[(Only the first 64 MiB were searched|The search took too long)/)
  })

  test('stops when the run does', async () => {
    const { mount, write } = await openTestMount()
    await write('a.txt', 'x')
    const stopped = AbortSignal.abort(new Error('cancelled'))
    for (const [name, input] of [
      ['search_files', { query: 'x' }],
      ['read_file', { path: '/app/mnt/a.txt' }],
      ['list_files', {}],
    ] as const) {
      await expect(call(mount, name, input, stopped)).rejects.toThrow('cancelled')
    }
  })

  test('stops when the run does, also between files that hold no text', async () => {
    const { mount, write } = await openTestMount()
    for (let index = 0; index < 3; index++) await write(`${index}`, '')
    const run = new AbortController()
    const opened = whenOpened(mount, () => run.abort(new Error('cancelled')))
    await expect(call(mount, 'search_files', { query: 'x' }, run.signal)).rejects.toThrow('cancelled')
    expect(opened).toHaveLength(1)
  })

  test('takes a few seconds, also for many files that hold no text on a slow disk', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const { mount, write } = await openTestMount()
    for (let index = 0; index < 5; index++) await write(`${index}`, index % 2 ? '' : '\0')
    const opened = whenOpened(mount, () => vi.advanceTimersByTime(2_000))
    const found = await call(mount, 'search_files', { query: 'x' })
    expect(found).toBe('[The search took too long. Name a longer path.]')
    expect(opened).toHaveLength(3)
  })
})

/** Does something whenever a file is opened. */
function whenOpened(mount: AgencyMount, work: () => void): string[] {
  const paths: string[] = []
  const open = mount.open.bind(mount)
  mount.open = (path) => {
    paths.push(path)
    work()
    return open(path)
  }
  return paths
}
