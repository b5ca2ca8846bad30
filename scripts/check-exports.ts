/**
 * What is exported is read by another file, and what programs hold is not there for tests alone.
 *
 * `node scripts/check-exports.ts [root]` prints every export that nobody reads and exits with 1 when there is one.
 */
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseSync } from 'vite'
import { z } from 'zod'

const SOURCES = ['packages/*/{src,bin}/**/*.{ts,tsx,mjs}', '{tests,scripts,examples,bench}/**/*.{ts,mjs}']
const DOCUMENTS = ['*.md', 'docs/**/*.md', 'examples/*.md']

/** Read by nobody but the test runner and whoever starts them. */
const TESTS = /\.(test|contract|test-[a-z-]+)\.ts$|^tests\/|\/testing(\.ts$|\/)/

/** Files whose exports are not looked at. */
const UNCHECKED: readonly RegExp[] = [
  // Whoever runs such a module reads what it exports.
  /^examples\/|-agency\.ts$/,
]

/** The thread of the embedded database finds operations by the name of their export. */
const OPERATION = /^export const (\w+)(?:: Operation<| = (?:system|tenant)Operation\()/

const COMMENT = /^[ \t]*(?:\/\/.*|\/\*[^]*?\*\/)/gm

type Problem = { readonly file: string; readonly line: number; readonly message: string }

/** `name` is `*` for everything that the file exports. */
type Read = { readonly from: string; readonly name: string; readonly by: string; readonly as?: string }
type Export = {
  readonly file: string
  readonly name: string
  readonly line: number
  /** The file needs it itself, or it is a type: what tests take from it costs a program nothing. */
  readonly free: boolean
}

/** Every export under `root` that nobody reads, and those of programs that only tests read; in the order of the files. */
export function checkExports(root: string): Problem[] {
  const files = globSync(SOURCES, { cwd: root, exclude: ['**/node_modules/**', '**/dist/**'] }).toSorted()
  const entries = entryFiles(root)
  const modules = files.map((file) => readModule(root, file, entries))
  const readers = new Map<string, Read[]>()
  for (const read of modules.flatMap(({ reads }) => reads)) {
    const key = `${read.from} ${read.name}`
    readers.set(key, [...(readers.get(key) ?? []), read])
  }
  const named = new Set(
    globSync(DOCUMENTS, { cwd: root }).flatMap(
      (file) => readFileSync(path.join(root, file), 'utf8').match(/\w+/g) ?? [],
    ),
  )
  const published = new Set([...entries.values()].flatMap(({ file, isPublished }) => (isPublished ? [file] : [])))

  /** Whose code an export is for. What a file hands on is for the readers of that file. */
  const usersOf = (file: string, name: string): string[] => {
    const users = [...(readers.get(`${file} ${name}`) ?? []), ...(readers.get(`${file} *`) ?? [])].flatMap((read) =>
      read.as === undefined ? [read.by] : usersOf(read.by, read.as === '*' ? name : read.as),
    )
    const isPublic = published.has(file) && (users.length > 0 || named.has(name))
    return isPublic ? ['the public'] : users
  }
  return modules.flatMap(({ exports }) =>
    exports.flatMap(({ file, name, line, free }) => {
      const users = usersOf(file, name)
      const isRead = TESTS.test(file) || free ? users.length > 0 : users.some((user) => !TESTS.test(user))
      if (isRead) return []
      return [{ file, line, message: `${name} is read by ${users.length > 0 ? 'tests only' : 'no other file'}` }]
    }),
  )
}

function readModule(root: string, file: string, entries: Entries) {
  const code = readFileSync(path.join(root, file), 'utf8')
  const { module } = parseSync(file, code)
  const resolve = (target: string): string =>
    target.startsWith('.') ? path.posix.join(path.posix.dirname(file), target) : (entries.get(target)?.file ?? target)
  const exported = module.staticExports.flatMap(({ start, entries: names }) =>
    names.map((entry) => ({ ...entry, statement: code.slice(start), name: nameOf(entry.exportName) })),
  )
  const reads: Read[] = [
    ...module.staticImports.flatMap(({ moduleRequest, entries: names }) =>
      names.map(({ importName }) => ({ from: resolve(moduleRequest.value), name: nameOf(importName), by: file })),
    ),
    ...exported.flatMap(({ moduleRequest, importName, name }) =>
      moduleRequest ? [{ from: resolve(moduleRequest.value), name: nameOf(importName), by: file, as: name }] : [],
    ),
    ...module.dynamicImports.flatMap(({ moduleRequest }) => dynamicReads(code, file, moduleRequest, resolve)),
  ]
  if (UNCHECKED.some((files) => files.test(file))) return { exports: [], reads }
  const own = code.replaceAll(COMMENT, '')
  const isFree = (statement: string, name: string): boolean =>
    statement.startsWith('export type ') || own.match(new RegExp(`\\b${name}\\b`, 'g'))!.length > 1
  const exports: Export[] = exported
    .filter(({ name, statement }) => name !== '*' && !OPERATION.test(statement))
    .map(({ name, localName, statement, start }) => ({
      file,
      name,
      line: code.slice(0, start).split('\n').length,
      free: isFree(statement, localName.name ?? name),
    }))
  return { exports, reads }
}

/** `*` for all names of a module. */
const nameOf = ({ kind, name }: { readonly kind: string; readonly name: string | null }): string =>
  name ?? (kind === 'Default' ? 'default' : '*')

/** `const { a, b } = await import('…')` reads these; any other form reads everything. */
function dynamicReads(
  code: string,
  file: string,
  request: { readonly start: number; readonly end: number },
  resolve: (target: string) => string,
): Read[] {
  const target = /^(['"])(.*)\1$/.exec(code.slice(request.start, request.end))?.[2]
  if (target === undefined) return []
  const names = /\{([^{}]*)\}\s*=\s*await import\($/.exec(code.slice(0, request.start))?.[1]
  const read = names === undefined ? ['*'] : names.split(',').map((name) => name.split(':')[0]!.trim())
  return read.filter(Boolean).map((name) => ({ from: resolve(target), name, by: file }))
}

const Manifest = z.object({
  name: z.string(),
  exports: z
    .record(z.string(), z.object({ '@bureau/source': z.string().optional(), default: z.string().optional() }))
    .default({}),
})

/** The files that other packages may import, by the name that they import them by. */
type Entries = ReadonlyMap<string, { readonly file: string; readonly isPublished: boolean }>

function entryFiles(root: string): Entries {
  return new Map(
    globSync('packages/*/package.json', { cwd: root }).flatMap((manifest) => {
      const { name, exports } = Manifest.parse(JSON.parse(readFileSync(path.join(root, manifest), 'utf8')))
      return Object.entries(exports).flatMap(([subpath, { '@bureau/source': source, default: built }]) => {
        if (source === undefined) return []
        const file = path.posix.join(path.posix.dirname(manifest), source)
        return [[path.posix.join(name, subpath), { file, isPublished: built !== undefined }] as const]
      })
    }),
  )
}

if (import.meta.main) {
  const problems = checkExports(path.resolve(process.argv[2] ?? '.'))
  for (const { file, line, message } of problems) console.error(`${file}:${line} ${message}`)
  if (problems.length > 0) process.exitCode = 1
  else console.log('Exports: each is read by another file.')
}
