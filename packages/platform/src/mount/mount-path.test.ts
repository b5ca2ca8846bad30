import { describe, expect, test } from 'vitest'
import { nameInMount, pathOf, prefixInMount } from './mount-path.ts'
import { checkSandboxFiles, sandboxFilesHint } from './sandbox-files.ts'

const CANONICAL = [
  '/app/mnt/a',
  '/app/mnt/uploads/01j/report.csv',
  '/app/mnt/.hidden',
  '/app/mnt/...',
  '/app/mnt/%2e%2e/passwd',
  '/app/mnt/a b/Übersicht 漢字 😀.txt',
  `/app/mnt/${'x'.repeat(255)}`,
  `/app/mnt/${'x/'.repeat(507)}y`,
]
const OTHERS = [
  '',
  '/',
  '/app/mnt',
  '/app/mnt/',
  '/app/mnt2/x',
  'app/mnt/x',
  '/APP/mnt/x',
  '/app/mnt/../etc/passwd',
  '/app/mnt/a/../b',
  '/app/mnt/./a',
  '/app/mnt//a',
  '/app/mnt/a//b',
  '/app/mnt/a/',
  '/app/mnt/a\\b',
  '/app/mnt/a\0b',
  '/app/mnt/a\nb',
  '/app/mnt/a\u007f',
  '/app/mnt/a\u200bb',
  '/app/mnt/a\u202eb',
  '/app/mnt/a\u2028b',
  '/app/mnt/U\u0308.txt',
  '/app/mnt/\ud800',
  `/app/mnt/${'x'.repeat(256)}`,
  `/app/mnt/${'é'.repeat(128)}`,
  `/app/mnt/${'x/'.repeat(508)}y`,
  `/app/mnt/${'x/'.repeat(600)}y`,
]

describe('nameInMount', () => {
  test.each(CANONICAL)('%s is canonical', (path) => {
    expect(pathOf(nameInMount(path) ?? '')).toBe(path)
    expect(() => checkSandboxFiles([{ path, name: path.slice(path.lastIndexOf('/') + 1) }])).not.toThrow()
  })

  test.each(OTHERS)('%j is not', (path) => {
    expect(nameInMount(path)).toBeUndefined()
    const file = { path, name: path.slice(path.lastIndexOf('/') + 1) }
    expect(() => checkSandboxFiles([file])).toThrow(expect.objectContaining({ code: 'invalid_sandbox_file' }))
  })
})

test('a request names a file by the last part of its path, in the same spelling', () => {
  const path = '/app/mnt/a/r.csv'
  for (const name of ['a/r.csv', 'R.csv', 'r.csv ', '']) {
    expect(() =>
      checkSandboxFiles([
        { path, name: 'r.csv' },
        { path, name },
      ]),
    ).toThrow('sandboxFiles[1].name')
  }
})

test.each([
  ['/app/mnt', ''],
  ['/app/mnt/', ''],
  ['/app/mnt/uploads', 'uploads'],
  ['/app/mnt/uploads/', 'uploads/'],
  ['/app/mnt/uploads//', undefined],
  ['/app/mnt/../', undefined],
  ['/etc/', undefined],
  ['', undefined],
])('%s lists what begins with %j', (path, prefix) => expect(prefixInMount(path)).toBe(prefix))

test('the model is told of the files that came with a message', () => {
  expect(sandboxFilesHint([])).toBeUndefined()
  const files = [{ name: 'a.csv', path: '/app/mnt/uploads/1/a.csv' }]
  expect(sandboxFilesHint(files)).toContain('\n/app/mnt/uploads/1/a.csv')
})
