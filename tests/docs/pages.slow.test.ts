import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { blocksOf, fileOf, isCommand, PAGES, ROOT } from './page.ts'
import { runPage } from './run-page.ts'

/** As in the repository; what runs in a page knows pages too. */
const TSCONFIG = JSON.stringify({
  extends: '../../tsconfig.json',
  compilerOptions: { lib: ['es2024', 'esnext.disposable', 'dom', 'dom.iterable'], jsx: 'react-jsx' },
  include: ['**/*.ts', '**/*.tsx'],
})

// Twenty seconds when the machine has nothing else to do.
describe.concurrent('followed as a reader would', () => {
  test.each(PAGES.filter((page) => blocksOf(page).some(isCommand)))('%s', async (page) => {
    await expect(runPage(page)).resolves.toBeDefined()
  })
})

test('all code of the pages compiles with the settings of the repository', async () => {
  mkdirSync(path.join(ROOT, '.docs-run'), { recursive: true })
  const folder = mkdtempSync(path.join(ROOT, '.docs-run/types-'))
  for (const page of PAGES) saveStates(page, path.join(folder, page.replaceAll(/\W+/g, '-')))
  writeFileSync(path.join(folder, 'tsconfig.json'), TSCONFIG)

  const tsc = promisify(execFile)(process.execPath, ['node_modules/.bin/tsc', '-p', folder], { cwd: ROOT })
  const { stdout } = await tsc.catch((error: { stdout: string }) => error)

  // What the sources are told is the affair of `npm run check`.
  expect(stdout.split('\n').filter((line) => line.startsWith('.docs-run/'))).toEqual([])
  rmSync(folder, { recursive: true })
})

/** The files of a page as its reader has them: once at the end, and once more before a file is replaced. */
function saveStates(page: string, folder: string): void {
  const files = new Map<string, string>()
  let states = 0
  const save = (): void => {
    for (const [name, text] of files) {
      const target = path.join(`${folder}-${states}`, name)
      mkdirSync(path.dirname(target), { recursive: true })
      writeFileSync(target, text)
    }
    states += 1
  }
  for (const block of blocksOf(page)) {
    const name = fileOf(block)
    if (!name || !/\.tsx?$/.test(name)) continue
    if (files.has(name)) save()
    files.set(name, block.text)
  }
  save()
}
