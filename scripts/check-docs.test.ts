import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { checkDocs } from './check-docs.ts'

const roots: string[] = []
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true })
})

/** The messages for a repository that holds a few known files and these documents. */
function messagesFor(documents: Record<string, string>): string[] {
  const root = mkdtempSync(path.join(tmpdir(), 'docs-'))
  roots.push(root)
  const files = {
    'package.json': '{ "scripts": { "check": "x", "test": "x" } }',
    'packages/server/src/app.ts': '',
    ...documents,
  }
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(root, name)
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
  return checkDocs(root).map(({ file, line, message }) => `${file}:${line} ${message}`)
}

test('a repository without documents has nothing to be wrong about', () => {
  expect(messagesFor({})).toEqual([])
})

test.each([
  ['a path', 'See `packages/server/src/app.ts`.'],
  ['a path with a line', 'See `packages/server/src/app.ts:12`.'],
  ['a folder', 'See `packages/server/`.'],
  ['a pattern', 'See `packages/<name>/src/app.ts` and `packages/*/src/{app,main}.ts`.'],
  ['a command', 'Run `node packages/server/src/app.ts --port 1`.'],
  ['a link', 'See [the app](packages/server/src/app.ts) and [below](#the-end).\n\n# The end!\n'],
  ['a link to elsewhere', 'See [there](https://example.com/nowhere.md).'],
  ['scripts', 'Run `npm run check`, `npm test`, `npm ci`.'],
  ['prose between code spans', '`a` or docs/none.md or `b`'],
  ['what is no path of the repository', 'Send `application/json` to `/docs/` or `src/app.ts` or `@a/b`.'],
  ['a path in a code block of another language', '```ts\nread("docs/none.md")\n```\n'],
])('%s that is right passes', (_name, text) => {
  expect(messagesFor({ 'README.md': text })).toEqual([])
})

test.each([
  ['a path', '\nSee `packages/server/src/gone.ts`.', 'README.md:2 packages/server/src/gone.ts does not exist'],
  ['a document', 'See `ARCHITECTURE.md`.', 'README.md:1 ARCHITECTURE.md does not exist'],
  ['a pattern', 'See `docs/<topic>.md`.', 'README.md:1 docs/<topic>.md does not exist'],
  ['a shell example', '```sh\nls\nnode examples/01.ts\n```\n', 'README.md:3 examples/01.ts does not exist'],
  ['a link', '[x](docs/none.md)', 'README.md:1 the link docs/none.md leads nowhere'],
  ['an image', '<img src="docs/none.png">', 'README.md:1 the link docs/none.png leads nowhere'],
  ['a heading', '[x](#none)', 'README.md:1 README.md has no heading #none'],
  ['a script', '```sh\nnpm run none\n```\n', 'README.md:2 package.json has no script "none"'],
  ['a script in prose', 'Type `npm start`.', 'README.md:1 package.json has no script "start"'],
])('%s that is wrong is named with its line', (_name, text, message) => {
  expect(messagesFor({ 'README.md': text })).toEqual([message])
})

test('links are read from the place of their document', () => {
  const text = '[a](../../packages/server/src/app.ts) [b](b.md#two) [c](packages/server/src/app.ts)'
  expect(messagesFor({ 'docs/x/a.md': text, 'docs/x/b.md': '## Two\n' })).toEqual([
    'docs/x/a.md:1 the link packages/server/src/app.ts leads nowhere',
  ])
})

test('a changelog may name what is gone', () => {
  expect(messagesFor({ 'CHANGELOG.md': 'Removed `packages/server/src/gone.ts`.' })).toEqual([])
})

test.each([
  ['a file by its path', '// As in packages/server/src/app.ts.'],
  ['a file of the package', '/** See src/app.ts. */'],
  ['a file of the folder', '/**\n * See ../src/app.ts.\n */'],
  ['a file by its name alone', '  // `app.ts` does the rest.'],
  ['what is no file of ours', '// https://example.com/a.ts, `*.repo.ts`, @scope/package/x.d.ts, <name>.ts'],
  ['code', "import './gone.ts'"],
])('a comment that names %s passes', (_name, text) => {
  expect(messagesFor({ 'packages/server/bin/x.ts': text })).toEqual([])
})

test.each([
  ['a path', '\n// As in packages/server/src/gone.ts.', '2 packages/server/src/gone.ts'],
  ['a name', '/**\n * See gone.ts.\n */', '2 gone.ts'],
])('a comment that names %s which is gone is told with its line', (_name, text, message) => {
  expect(messagesFor({ 'packages/server/src/x.ts': text })).toEqual([
    `packages/server/src/x.ts:${message} does not exist`,
  ])
})

test('a command that runs tests names a place that has some', () => {
  const files = { 'packages/server/src/app.test.ts': '', 'packages/cli/src/main.ts': '' }
  const text = 'Type `npx vitest run packages/server`.\nType `npx vitest run packages/cli`.'
  expect(messagesFor({ ...files, 'README.md': text })).toEqual(['README.md:2 packages/cli has no tests'])
})
