import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeFolder } from './make-folder.ts'

describe('makeFolder', () => {
  let base: string
  beforeAll(() => void (base = mkdtempSync(path.join(tmpdir(), 'bureau-folder-'))))
  afterAll(() => rmSync(base, { recursive: true }))

  const codeOf = (folder: string): unknown => {
    try {
      makeFolder(folder)
      return 'made'
    } catch (error) {
      return (error as NodeJS.ErrnoException).code
    }
  }

  test('makes what is missing, for this user alone, and leaves what is there', () => {
    const folder = path.join(base, 'a/b/c')

    expect([codeOf(folder), codeOf(folder)]).toEqual(['made', 'made'])
    for (const made of [folder, path.join(base, 'a')]) expect(statSync(made).mode & 0o777).toBe(0o700)
  })

  test.each([
    ['file', 'EEXIST'],
    ['file/a', 'ENOTDIR'],
    ['file/a/b', 'ENOTDIR'],
  ])('%s is refused with %s', (name, code) => {
    writeFileSync(path.join(base, 'file'), '')

    expect(codeOf(path.join(base, name))).toBe(code)
  })

  // Elsewhere no file system is known that refuses so.
  test.runIf(process.platform === 'linux')('a file system without new folders refuses at once', () => {
    expect([codeOf('/proc/bureau'), codeOf('/proc/bureau/data')]).toEqual(['ENOENT', 'ENOENT'])
  })
})
