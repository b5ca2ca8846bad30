import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { printsAsShown } from './expected-output.ts'
import { type Block, blocksOf, fileOf, isCommand, PAGES, ROOT } from './page.ts'
import { problemOfShown } from './shown-command.ts'

const LANGUAGES = new Set(['ts', 'tsx', 'js', 'jsx', 'sh', 'json', 'yaml', 'html', 'text', ''])
const SHELL_WORDS = /^(?:shown|ci|(?:server)?(?:(?:^| )in=repository)?)$/

/** What keeps a block from being true, or from being checked; empty when there is nothing. */
function problemsOf(block: Block, previous: Block | undefined): string[] {
  const { language, words, text } = block
  if (!LANGUAGES.has(language)) return [`no test knows ${language}`]
  if (words.includes('output')) return previous && isCommand(previous) ? [] : ['output belongs right after a command']
  if (/^[jt]sx?$/.test(language) && fileOf(block) === undefined) {
    return ['code needs file=NAME: it is saved, type-checked and run from there']
  }
  if (language === 'json') return problemOf(() => JSON.parse(text))
  if (language === 'yaml') return problemOf(() => parse(text))
  if (language !== 'sh') return []
  if (!SHELL_WORDS.test(words.join(' '))) return [`no test knows "sh ${words.join(' ')}"`]
  if (words[0] !== 'shown') return []
  return text
    .trimEnd()
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .flatMap((line) => problemOfShown(line) ?? [])
}

function problemOf(read: () => unknown): string[] {
  try {
    read()
    return []
  } catch (error) {
    return [(error as Error).message]
  }
}

test.each(PAGES)('every block of %s is run, type-checked or known', (page) => {
  const blocks = blocksOf(page)
  const problems = blocks.flatMap((block, at) =>
    problemsOf(block, blocks[at - 1]).map((problem) => `${page}:${block.line} ${problem}`),
  )
  expect(problems).toEqual([])
})

test('every page is in the list of pages', () => {
  const listed = readFileSync(path.join(ROOT, 'docs/README.md'), 'utf8')
  const pages = globSync('docs/*.md', { cwd: ROOT }).map((file) => path.basename(file))

  expect(pages.filter((page) => page !== 'README.md' && !listed.includes(`](${page})`))).toEqual([])
})

describe('examples', () => {
  const examples = globSync('examples/[0-9][0-9]-*.ts', { cwd: ROOT }).toSorted()

  test('are run by their page', () => {
    const run = blocksOf('examples/README.md').flatMap(({ text }) => /example -- (\d\d)/.exec(text)?.[1] ?? [])

    expect(run.toSorted()).toEqual(examples.map((file) => path.basename(file).slice(0, 2)))
  })

  test.each(examples)('%s fits on a page', (file) => {
    expect(readFileSync(path.join(ROOT, file), 'utf8').split('\n').length).toBeLessThanOrEqual(60)
  })
})

test.each([
  ['packages/server/src/options.ts', 'docs/self-hosting.md'],
  ['packages/server/src/embedding/create-handler.ts', 'docs/embedding.md'],
  ['packages/server/src/oauth/oauth-options.ts', 'docs/self-hosting.md'],
  ['packages/server/src/realtime/realtime-options.ts', 'docs/realtime.md'],
  ['packages/runtime/src/observability/open-tracing.ts', 'docs/observability.md'],
  ['packages/client/src/client.ts', 'docs/client.md'],
  ['packages/client/src/send.ts', 'docs/client.md'],
  ['packages/client/src/server.ts', 'docs/client.md'],
  ['packages/client/src/platform-api.ts', 'docs/client.md'],
  ['packages/react/src/use-agency.ts', 'docs/react.md'],
  ['packages/framework/src/ask.ts', 'docs/scripts-and-tests.md'],
  ['packages/framework/src/agency/agent-options.ts', 'docs/agencies.md'],
  ['packages/framework/src/agency/agency.ts', 'docs/agencies.md'],
  ['packages/framework/src/agency/oauth-server.ts', 'docs/tool-servers.md'],
])('every option in %s is named in %s', (source, page) => {
  const [text, described] = [source, page].map((file) => readFileSync(path.join(ROOT, file), 'utf8'))
  const options = [...text!.matchAll(/^  readonly (\w+)\?: /gm)].map((match) => match[1]!)

  expect(options.length).toBeGreaterThan(0)
  expect(options.filter((option) => !new RegExp(`\\b${option}\\b`).test(described!))).toEqual([])
})

describe('what can only be shown', () => {
  test.each([
    'npm install @bureau/server @bureau/framework',
    'npm install --save-dev @openai/agents-realtime@0.20.0',
    'npm ci',
    'npm run check',
    'export OPENAI_API_KEY=sk-…',
    'docker build -f deploy/Dockerfile -t agents .',
    '# a remark',
  ])('%s', (line) => {
    expect(problemOfShown(line)).toBeUndefined()
  })

  test.each([
    ['npm install left-pad', 'nothing of ours needs or is the package left-pad'],
    ['npm install fastify@4.0.0', expect.stringMatching(/^fastify is at .* here, not 4.0.0$/)],
    ['kubectl apply -f deploy/none.yaml', 'there is no file deploy/none.yaml'],
    ['npm run none', 'package.json has no script "none"'],
    ['export BUREAU_COLOUR=red', 'nothing reads the variable BUREAU_COLOUR'],
    ['curl http://127.0.0.1:8000', expect.stringContaining('let it run')],
  ])('not %s', (line, problem) => {
    expect(problemOfShown(line)).toEqual(problem)
  })
})

describe('what a command prints', () => {
  test.each([
    ['a\nb', 'a\nb\n'],
    ['a\nb\nc', '…\nc'],
    ['c', '…\nc'],
    ['a\nb\nc', 'a\n…'],
    ['{"a":1,"id":"x7"}', '{"a":1,"id":"…"}'],
  ])('%j is as shown in %j', (printed, shown) => {
    expect(printsAsShown(printed, shown)).toBe(true)
  })

  test.each([
    ['ab', 'a.'],
    ['a\nb', 'a'],
    ['a\nb', 'a…'],
  ])('%j is not as shown in %j', (printed, shown) => {
    expect(printsAsShown(printed, shown)).toBe(false)
  })
})
