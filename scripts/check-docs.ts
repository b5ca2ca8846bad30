/**
 * What the documentation says must be true: the paths, links and scripts that it names exist, and so do the files that
 * comments name.
 *
 * `node scripts/check-docs.ts [root]` prints every untrue statement and exits with 1 when there is one.
 */
import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'

const DOCUMENTS = ['*.md', 'docs/**/*.md', '{packages,examples,bench}/**/README.md']

/** A changelog names files that are gone, a template those of the project that it becomes. */
const HISTORY = ['CHANGELOG.md', '**/node_modules/**', '**/dist/**', 'packages/create-bureau/templates/**']

/** What begins with one of these folders, or is an upper-case Markdown file, is meant as a path of the repository. */
const REPOSITORY_PATH = /^(?:(?:packages|scripts|deploy|docs|tests|examples|bench|\.ci)\/\S*|[A-Z]+\.md)$/

type Problem = { readonly file: string; readonly line: number; readonly message: string }

type Document = {
  readonly file: string
  /** The whole text. */
  readonly text: string
  /** The text with fenced code blanked out, so that positions stay. */
  readonly prose: string
}

type Check = (root: string, document: Document) => { index: number; message: string }[]

const CHECKS: readonly Check[] = [missingPaths, brokenLinks, missingScripts, testRunsWithoutTests]

/** Every statement of the documents and comments under `root` that is not true. A document that does not exist is no problem. */
export function checkDocs(root: string): Problem[] {
  const files = globSync(DOCUMENTS, { cwd: root, exclude: HISTORY }).toSorted()
  return [...files.flatMap((file) => checkDocument(root, file)), ...checkComments(root)]
}

function checkDocument(root: string, file: string): Problem[] {
  const text = readFileSync(path.join(root, file), 'utf8')
  const document = { file, text, prose: withoutFences(text) }
  return CHECKS.flatMap((check) => check(root, document)).map(({ index, message }) => ({
    file,
    line: lineOf(text, index),
    message,
  }))
}

const lineOf = (text: string, index: number): number => text.slice(0, index).split('\n').length

const SOURCES = '{packages,scripts,tests,bench,examples}/**/*.{ts,tsx,mjs}'

/** Comments that stand alone, by lines or as a block. */
const COMMENT = /^[ \t]*(?:\/\/.*|\/\*[^]*?\*\/)/gm

/** With a folder, read from the root, the package or the comment's own file; without one, any file of that name. */
const FILE_NAME = /(?<![\w/@.:<*-])[\w.-]*\w(?:\/[\w@.-]+)*\.(?:ts|mjs|md)(?![\w*/-])/g

/** Files of users, which the repository does not hold. */
const OF_USERS: ReadonlySet<string> = new Set(['agency.ts'])

function checkComments(root: string): Problem[] {
  const sources = globSync(SOURCES, { cwd: root, exclude: HISTORY })
  const names = new Set([...sources, ...globSync(DOCUMENTS, { cwd: root })].map((file) => path.basename(file)))
  const isThere = (name: string, file: string): boolean => {
    if (!name.includes('/')) return names.has(name) || OF_USERS.has(name)
    const [, , ...inPackage] = file.split('/')
    const packageFolder = file.slice(0, -inPackage.join('/').length)
    return [root, path.join(root, packageFolder), path.join(root, path.dirname(file))].some((from) =>
      existsSync(path.join(from, name)),
    )
  }
  return sources.toSorted().flatMap((file) => {
    const text = readFileSync(path.join(root, file), 'utf8')
    return [...text.matchAll(COMMENT)].flatMap((comment) =>
      [...comment[0].matchAll(FILE_NAME)]
        .filter(([name]) => !isThere(name, file))
        .map((match) => ({
          file,
          line: lineOf(text, comment.index + match.index),
          message: `${match[0]} does not exist`,
        })),
    )
  })
}

/** Paths in code spans and in shell examples. `<name>` and `…` stand for any name. */
function missingPaths(root: string, { text, prose }: Document): { index: number; message: string }[] {
  const spans = [...prose.matchAll(/`[^`\n]+`/g)]
  const shell = [...text.matchAll(/(?<=^```(?:sh|bash|shell|console)\n)[^]*?(?=^```)/gm)]
  return [...spans, ...shell].flatMap((match) =>
    [...match[0].matchAll(/[^\s`]+/g)].flatMap((word) => {
      const name = word[0].replace(/^\.\//, '').replace(/[:#,;.)"']+[\d-]*$/, '')
      if (!REPOSITORY_PATH.test(name) || exists(root, name)) return []
      return [{ index: match.index + word.index, message: `${name} does not exist` }]
    }),
  )
}

function exists(root: string, name: string): boolean {
  const pattern = name.replaceAll(/<[^>]+>|…/g, '*')
  return /[*{]/.test(pattern) ? globSync(pattern, { cwd: root }).length > 0 : existsSync(path.join(root, pattern))
}

/** Links into the repository: the file exists and, when a heading is named, so does the heading. */
function brokenLinks(root: string, { file, text, prose }: Document): { index: number; message: string }[] {
  const links = [...prose.matchAll(/\]\(\s*<?([^)\s>]+)|^\[[^\]]+\]:\s*(\S+)|\b(?:src|href)="([^"]+)"/gm)]
  return links.flatMap((match) => {
    const link = match[1] ?? match[2] ?? match[3] ?? ''
    if (/^([a-z]+:|\/\/)/i.test(link)) return []

    const [name = '', heading] = link.split('#')
    const target = name === '' ? file : path.join(path.dirname(file), decodeURI(name))
    if (!existsSync(path.join(root, target))) return [{ index: match.index, message: `the link ${link} leads nowhere` }]
    if (heading === undefined || !target.endsWith('.md')) return []

    const targetText = name === '' ? text : readFileSync(path.join(root, target), 'utf8')
    if (headingsOf(targetText).has(heading)) return []
    return [{ index: match.index, message: `${target} has no heading #${heading}` }]
  })
}

/** The anchors that GitHub makes of the headings. */
function headingsOf(text: string): Set<string> {
  const titles = [...withoutFences(text).matchAll(/^#{1,6} +(.+?) *#*$/gm)].map((match) => match[1] ?? '')
  return new Set(
    titles.map((title) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
        .replaceAll(' ', '-'),
    ),
  )
}

const Manifest = z.object({ scripts: z.record(z.string(), z.string()).default({}) })

/** `npm run <script>`, `npm test` and `npm start`, wherever they are written. */
function missingScripts(root: string, { text }: Document): { index: number; message: string }[] {
  const { scripts } = Manifest.parse(JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')))
  return [...text.matchAll(/\bnpm (?:run +([a-z][\w:-]*)|(test|start)\b)/g)].flatMap((match) => {
    const name = match[1] ?? match[2] ?? ''
    return name in scripts ? [] : [{ index: match.index, message: `package.json has no script "${name}"` }]
  })
}

/** `npx vitest run <path>` finds nothing to run where no test lies. */
function testRunsWithoutTests(root: string, { text }: Document): { index: number; message: string }[] {
  return [...text.matchAll(/\bvitest run ((?:packages|tests|scripts)\/[\w./-]+)/g)].flatMap((match) => {
    const [, name = ''] = match
    const found = name.endsWith('.test.ts') ? [name] : globSync(`${name}/**/*.test.ts`, { cwd: root })
    return found.length > 0 ? [] : [{ index: match.index, message: `${name} has no tests` }]
  })
}

function withoutFences(text: string): string {
  return text.replaceAll(/^ *(`{3,}|~{3,})[^]*?^ *\1/gm, (block) => block.replaceAll(/[^\n]/g, ' '))
}

if (import.meta.main) {
  const problems = checkDocs(path.resolve(process.argv[2] ?? '.'))
  for (const { file, line, message } of problems) console.error(`${file}:${line} ${message}`)
  if (problems.length > 0) process.exitCode = 1
  else console.log('Docs: every path, link and script that they name exists.')
}
