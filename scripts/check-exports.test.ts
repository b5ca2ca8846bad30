import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { checkExports } from './check-exports.ts'

const roots: string[] = []
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true })
})

/** The messages for a repository with these files. The package `shop` publishes its index and shows its testing file to tests. */
function messagesFor(files: Record<string, string>): string[] {
  const root = mkdtempSync(path.join(tmpdir(), 'exports-'))
  roots.push(root)
  const exports = {
    '.': { '@bureau/source': './src/index.ts', default: './dist/index.js' },
    './testing': { '@bureau/source': './src/testing.ts' },
  }
  const manifest = JSON.stringify({ name: '@bureau/shop', exports })
  for (const [name, text] of Object.entries({ 'packages/shop/package.json': manifest, ...files })) {
    const file = path.join(root, name)
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
  return checkExports(root).map(({ file, line, message }) => `${file}:${line} ${message}`)
}

test('what no other file reads is named with its line; what one reads is not', () => {
  expect(
    messagesFor({
      'packages/shop/src/a.ts': 'export const used = 1\nexport const idle = used\nexport type Idle = number\n',
      'packages/shop/src/b.ts': "import { used } from './a.ts'\nconsole.log(used)\n",
    }),
  ).toEqual([
    'packages/shop/src/a.ts:2 idle is read by no other file',
    'packages/shop/src/a.ts:3 Idle is read by no other file',
  ])
})

test('a value that only tests read is named, unless its own file needs it; types are free', () => {
  expect(
    messagesFor({
      'packages/shop/src/a.ts':
        'export const idle = 1\nexport const part = 2\nexport const whole = [part]\nexport type Kind = 1\n',
      'packages/shop/src/b.ts': "import { whole } from './a.ts'\nconsole.log(whole)\n",
      'packages/shop/src/a.test.ts': "import { idle, type Kind, part, whole } from './a.ts'\n",
    }),
  ).toEqual(['packages/shop/src/a.ts:1 idle is read by tests only'])
})

test('the public file hands on what other packages or tests import, or the documents name', () => {
  const files = {
    'packages/shop/src/a.ts': 'export const [told, taken, idle, shown] = [1, 2, 3, 4]\n',
    'packages/shop/src/index.ts': "export { idle, taken, told } from './a.ts'\n",
    'packages/shop/src/testing.ts': "export { shown } from './a.ts'\n",
    'tests/shop.test.ts':
      "const { taken } = await import('@bureau/shop')\nimport { shown } from '@bureau/shop/testing'\n",
    'docs/shop.md': 'It has `told`.\n',
  }
  expect(messagesFor(files)).toEqual([
    'packages/shop/src/a.ts:1 idle is read by no other file',
    'packages/shop/src/a.ts:1 shown is read by tests only',
    'packages/shop/src/index.ts:1 idle is read by no other file',
  ])
})

test('operations are found by their names, and what agencies export by whoever runs them', () => {
  expect(
    messagesFor({
      'packages/shop/src/a.ts': 'export const addOrder = systemOperation({}, work)\n',
      'tests/support/shop-agency.ts': 'export const shop = 1\n',
    }),
  ).toEqual([])
})
