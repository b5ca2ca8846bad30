import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { checkBoundaries, checkCircles, PACKAGES } from './check-boundaries.ts'

const roots: string[] = []
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true })
})

/** The messages for a repository that holds these files; every package lists zod and fastify. */
function messagesFor(files: Record<string, string>): string[] {
  const root = repository(files)
  return [...checkBoundaries(root), ...checkCircles(root)].map(
    ({ file, line, message }) => `${file}:${line} ${message}`,
  )
}

function repository(files: Record<string, string>): string {
  const root = mkdtempSync(path.join(tmpdir(), 'boundaries-'))
  roots.push(root)
  const peerDependencies = { react: '19', '@openai/agents-realtime': '1' }
  const manifest = JSON.stringify({ dependencies: { zod: '4', fastify: '5' }, peerDependencies })
  const manifests = Object.keys(PACKAGES).map((name) => [`packages/${name}/package.json`, manifest] as const)
  for (const [name, text] of [...manifests, ...Object.entries(files)]) {
    const file = path.join(root, name)
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
  return root
}

test('the arrows between packages hold no cycle', () => {
  const reachable = (name: string): string[] =>
    (PACKAGES[name]?.mayImport ?? []).flatMap((next) => [next, ...reachable(next)])
  for (const name of Object.keys(PACKAGES)) expect(reachable(name)).not.toContain(name)
})

test('an import against the arrow is named with file, line and reason', () => {
  expect(
    messagesFor({
      'packages/protocol/src/a.ts': "import { z } from 'zod'\nimport type { Agency } from '@bureau/framework'\n",
    }),
  ).toEqual([
    'packages/protocol/src/a.ts:2 imports @bureau/framework: protocol may import no other package',
    'packages/protocol/src/a.ts:2 imports @bureau/framework: packages/protocol/package.json does not list it',
  ])
})

test.each([
  ['a re-export', "export { a } from 'fastify'"],
  ['a star export', "export * from 'fastify'"],
  ['a type import', "import type { FastifyInstance } from 'fastify'"],
  ['a dynamic import', "export const load = () => import('fastify')"],
])('%s counts as an import', (_kind, code) => {
  expect(messagesFor({ 'packages/framework/src/a.ts': code })).toEqual([
    'packages/framework/src/a.ts:1 imports fastify: framework must not know it',
  ])
})

test('words in comments and strings are no imports', () => {
  expect(
    messagesFor({
      'packages/framework/src/a.ts': "// import x from 'fastify'\nexport const a = \"import 'fastify'\"\n",
    }),
  ).toEqual([])
})

test('a package that package.json does not list is refused, a peer is not', () => {
  expect(messagesFor({ 'packages/console/src/a.tsx': "import 'react'\nimport 'left-pad/x'\n" })).toEqual([
    'packages/console/src/a.tsx:2 imports left-pad/x: packages/console/package.json does not list it',
  ])
})

test('only realtime sessions run on the agents SDK', () => {
  const of = (folder: string): string[] =>
    messagesFor({ [`packages/server/src/${folder}/a.ts`]: "import '@openai/agents-realtime'\n" })

  expect(of('realtime')).toEqual([])
  expect(of('agencies')).toEqual([expect.stringContaining('only realtime sessions run on it')])
})

test('another package is entered by its name, from tests as well', () => {
  expect(messagesFor({ 'tests/a.test.ts': "import '../packages/server/src/app.ts'" })).toEqual([
    'tests/a.test.ts:1 imports packages/server/src/app.ts: write @bureau/server; a package is entered through its exports',
  ])
})

test('the browser packages know no Node', () => {
  expect(messagesFor({ 'packages/client/src/a.ts': "import 'node:fs'" })).toEqual([
    'packages/client/src/a.ts:1 imports node:fs: client must not know it',
  ])
})

test.each([
  ['packages/platform/src/chats/chats.routes.ts', './chats.repo.ts', /a route knows HTTP/],
  ['packages/platform/src/chats/create-chat.ts', 'fastify', /an operation knows the rules/],
  ['packages/platform/src/chats/create-chat.ts', './chats.routes.ts', /an operation knows the rules/],
  ['packages/platform/src/chats/chats.repo.ts', './create-chat.ts', /a repository knows SQL/],
  ['packages/runtime/src/runs/start-run.ts', './run-event-log.redis.ts', /chosen in one place/],
  ['packages/runtime/src/runs/run-event-log.redis.ts', '../http/app.ts', /one driver/],
  ['packages/runtime/src/runs/start-run.ts', '../backends.ts', /only programs choose/],
  ['packages/runtime/src/runs/start-run.ts', './run-event-log.contract.ts', /imported by tests/],
  ['packages/server/src/app.ts', './app.test.ts', /imported by tests/],
  ['packages/server/src/app.ts', './testing.ts', /imported by tests/],
  ['packages/server/src/app.ts', 'node:process', /environment is read once/],
])('%s must not import %s', (file, target, because) => {
  expect(messagesFor({ [file]: `import '${target}'` })).toEqual([expect.stringMatching(because)])
})

test.each([
  ['packages/platform/src/chats/chats.routes.ts', './create-chat.ts'],
  ['packages/platform/src/chats/create-chat.ts', './chats.repo.ts'],
  ['packages/platform/src/chats/chats.repo.ts', '../db/schema.ts'],
  ['packages/platform/src/chats/chats.repo.ts', './chat-policy.ts'],
  ['packages/platform/src/main.ts', './db/open-database.ts'],
  ['packages/runtime/src/backends.ts', './runs/run-event-log.redis.ts'],
  ['packages/runtime/src/runs/run-event-log.redis.ts', './run-event-log.ts'],
  ['packages/runtime/src/runs/run-event-log.redis.test.ts', './run-event-log.contract.ts'],
  ['packages/runtime/src/runs/run-event-log.redis.test.ts', './run-event-log.redis.ts'],
  ['packages/server/src/app.test.ts', '@bureau/framework/testing'],
])('%s may import %s', (file, target) => {
  expect(messagesFor({ [file]: `import '${target}'` })).toEqual([])
})

test.each([
  ['packages/server/src/http/index.ts', /one index\.ts per package/],
  ['packages/server/src/string-utils.ts', /name the file after what it exports/],
  ['packages/server/src/helpers/text.ts', /name the file after what it exports/],
])('%s is no file name', (file, because) => {
  expect(messagesFor({ [file]: '' })).toEqual([expect.stringMatching(because)])
})

test('files that import each other are named together, types included', () => {
  expect(
    messagesFor({
      'packages/framework/src/a.ts': "import { b } from './b.ts'",
      'packages/framework/src/b.ts': "export * from './loop/c.ts'",
      'packages/framework/src/loop/c.ts': "import type { A } from '../a.ts'",
      'packages/framework/src/loop/d.ts': "import './c.ts'",
    }),
  ).toEqual([
    'packages/framework/src/a.ts:1 these files import each other in a circle: ' +
      'packages/framework/src/a.ts, packages/framework/src/b.ts, packages/framework/src/loop/c.ts',
  ])
})

test('folders that import each other are named together, with an import for each arrow', () => {
  expect(
    messagesFor({
      'packages/framework/src/run/a.ts': "import '../loop/b.ts'",
      'packages/framework/src/loop/b.ts': '',
      'packages/framework/src/loop/steps/c.ts': "import '../../trace/d.ts'",
      'packages/framework/src/loop/e.ts': "import '../trace/d.ts'",
      'packages/framework/src/trace/d.ts': "import '../run/f.ts'",
      'packages/framework/src/run/f.ts': '',
      'packages/framework/src/run/f.test.ts': "import '../trace/d.ts'",
    }),
  ).toEqual([
    [
      'packages/framework/src/loop:1 these folders import each other in a circle: ' +
        'packages/framework/src/loop, packages/framework/src/run, packages/framework/src/trace',
      '    packages/framework/src/loop/e.ts imports packages/framework/src/trace/d.ts (1 of 2)',
      '    packages/framework/src/run/a.ts imports packages/framework/src/loop/b.ts',
      '    packages/framework/src/trace/d.ts imports packages/framework/src/run/f.ts',
    ].join('\n'),
  ])
})

test('files beside the folders of a package may join them', () => {
  expect(
    messagesFor({
      'packages/framework/src/main.ts': "import './run/a.ts'",
      'packages/framework/src/run/a.ts': "import '../options.ts'",
      'packages/framework/src/options.ts': '',
    }),
  ).toEqual([])
})
