/**
 * Who may import whom: the arrows between packages and the layers inside them, as tables, and no circles anywhere.
 *
 * `node scripts/check-boundaries.ts [root]` prints every import that breaks a rule, and every circle of files or of
 * folders, and exits with 1 when there is one.
 */
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseSync } from 'vite'
import { z } from 'zod'
import { circlesOf, fileGraph, folderGraph, folderOf, readSources, type SourceFile } from './import-graph.ts'

const SQL = /^(pg|drizzle-orm|@electric-sql\/pglite)(\/|$)/
const SERVERS = /^(node:|fastify(\/|$)|@fastify\/|@redis\/|pg(\/|$)|drizzle-orm(\/|$)|@electric-sql\/)/

type PackageRule = { readonly mayImport: readonly string[]; readonly mustNotKnow: RegExp }

/** The packages of the repository: which of our own each may import, and which foreign modules it must not know. */
export const PACKAGES: Readonly<Record<string, PackageRule>> = {
  protocol: { mayImport: [], mustNotKnow: /^(?!zod(\/|$))/ },
  framework: {
    mayImport: ['protocol'],
    mustNotKnow: /^(fastify(\/|$)|@fastify\/|@redis\/|pg(\/|$)|drizzle-orm(\/|$)|@electric-sql\/)/,
  },
  runtime: { mayImport: ['protocol', 'framework'], mustNotKnow: SQL },
  faces: { mayImport: ['protocol', 'framework', 'runtime'], mustNotKnow: SQL },
  server: { mayImport: ['protocol', 'framework', 'runtime', 'faces'], mustNotKnow: SQL },
  platform: { mayImport: ['protocol', 'framework', 'runtime', 'faces'], mustNotKnow: /^@ag-ui\// },
  client: { mayImport: ['protocol'], mustNotKnow: SERVERS },
  react: { mayImport: ['protocol', 'client'], mustNotKnow: SERVERS },
  console: { mayImport: ['protocol', 'client'], mustNotKnow: SERVERS },
  'create-bureau': { mayImport: [], mustNotKnow: SQL },
  cli: { mayImport: ['protocol', 'client', 'framework', 'runtime', 'server', 'platform'], mustNotKnow: SQL },
}

type LayerRule = {
  /** The importing files, by their path in the repository. Tests and test support are never meant. */
  readonly files: RegExp
  readonly except?: RegExp
  /** What they may not import: the path in the repository of our own files, the module name of all others. */
  readonly mustNotImport: RegExp
  readonly because: string
}

const LAYERS: readonly LayerRule[] = [
  {
    files: /(\.routes|\/app)\.ts$|\/http\/[^/]+\.ts$/,
    mustNotImport: /\.repo\.ts$|^drizzle-orm(\/|$)/,
    because: 'a route knows HTTP; rules and SQL are behind an operation',
  },
  {
    files: /^packages\/platform\/src\/(?:[^/]+\/)+[^./]+\.ts$/,
    except: /\/src\/(db|http|completions)\//,
    mustNotImport: /^@?fastify(\/|$)|\.routes\.ts$/,
    because: 'an operation knows the rules, not HTTP',
  },
  {
    files: /\.repo\.ts$/,
    mustNotImport:
      /^@?fastify(\/|$)|\.routes\.ts$|^packages\/platform\/src\/(?!db\/)(?:[^/]+\/)+(?!\S+-policy\.ts$)[^./]+\.ts$/,
    because: 'a repository knows SQL, neither operations nor HTTP (pure rules that both need are a *-policy.ts)',
  },
  {
    files: /^packages\/(?!cli\/)[^/]+\/src\//,
    except: /\/(index|main|run-server|platform-store)\.ts$/,
    mustNotImport: /\/(backends|db\/open-database|main|run-server)\.ts$/,
    because: 'only programs choose the backends; everything else is handed what it needs',
  },
  {
    files: /^packages\/[^/]+\/src\//,
    except: /\/(index|main|run-server|backends|db\/open-database|db\/backup|db\/vacuum)\.ts$/,
    mustNotImport: /\.(memory|redis|file|local|s3|sql|pglite|postgres)\.ts$/,
    because: 'an implementation of a seam is chosen in one place; import the interface',
  },
  {
    files: /\.(memory|redis|file|local|s3|sql|pglite|postgres)\.ts$/,
    mustNotImport: /^@?fastify(\/|$)|(\.routes|\.repo|\/app)\.ts$/,
    because: 'an implementation of a seam knows its interface and one driver',
  },
  {
    files: /\.ts$/,
    mustNotImport: /\.(contract|test|test-[a-z-]+)\.ts$|\/testing(\.ts|\/.*)?$/,
    because: 'what exists for tests is imported by tests',
  },
  {
    files: /^packages\/[^/]+\/src\//,
    except: /^packages\/server\/src\/realtime\//,
    mustNotImport: /^@openai\/agents(-[a-z]+)?(\/|$)/,
    because: 'objects of that SDK are read by their shape; only realtime sessions run on it',
  },
  {
    files: /^packages\/[^/]+\/src\//,
    except: /\/(config|main)\.ts$/,
    mustNotImport: /^(node:)?process$/,
    because: 'the environment is read once, in config.ts or main.ts; `process` itself is global',
  },
]

const NAMES: readonly { readonly files: RegExp; readonly because: string }[] = [
  { files: /\/src\/.+\/index\.tsx?$/, because: 'one index.ts per package, in src' },
  {
    files: /(\/|-)(utils?|helpers?|common|misc|manager|impl)(\.tsx?|\/)/,
    because: 'name the file after what it exports',
  },
]

const TEST_SUPPORT = /\.(test|contract|test-[a-z-]+)\.tsx?$|\/testing(\.ts$|\/)/
const SOURCES = ['packages/*/{src,bin}/**/*.{ts,tsx,mjs}', '{tests,scripts,examples,bench}/**/*.{ts,tsx,mjs}']

type Problem = { readonly file: string; readonly line: number; readonly message: string }

/** Every import and file name under `root` that breaks a rule, in the order of the files. */
export function checkBoundaries(root: string): Problem[] {
  const files = globSync(SOURCES, { cwd: root, exclude: ['**/node_modules/**', '**/dist/**', '**/__fixtures__/**'] })
  const declared = declaredDependencies(root)
  return files.toSorted().flatMap((file) => [
    ...nameProblems(file),
    ...importsOf(root, file).flatMap(({ target, line }) =>
      importProblems(file, target, declared).map((because) => ({
        file,
        line,
        message: `imports ${target}: ${because}`,
      })),
    ),
  ])
}

/**
 * The circles of a repository's files and of the folders of its packages, types included: code in a circle can only be
 * understood, tested and moved as a whole. Each is named at its first member; a circle of folders with an import for each
 * of its arrows.
 */
export function checkCircles(root: string): Problem[] {
  const sources = readSources(root)
  const ofFiles = circlesOf(fileGraph(sources)).map((circle) => ({
    file: circle[0]!,
    line: 1,
    message: `these files import each other in a circle: ${circle.join(', ')}`,
  }))
  const ofFolders = circlesOf(folderGraph(sources)).map((circle) => ({
    file: circle[0]!,
    line: 1,
    message: `these folders import each other in a circle: ${circle.join(', ')}\n${arrowsWithin(circle, sources)}`,
  }))
  return [...ofFiles, ...ofFolders]
}

/** One line for each arrow between two folders of the circle: an example, and how many imports there are. */
function arrowsWithin(circle: readonly string[], sources: readonly SourceFile[]): string {
  const imports = sources.flatMap(({ path: file, imports: targets }) => targets.map((target) => ({ file, target })))
  const arrows = Map.groupBy(imports, ({ file, target }) => `${folderOf(file)} -> ${folderOf(target)}`)
  const within = circle.flatMap((from) => circle.filter((to) => to !== from).map((to) => `${from} -> ${to}`))
  return within
    .flatMap((arrow) => {
      const [first, ...others] = arrows.get(arrow) ?? []
      return first
        ? [`    ${first.file} imports ${first.target}${others.length > 0 ? ` (1 of ${others.length + 1})` : ''}`]
        : []
    })
    .join('\n')
}

function nameProblems(file: string): Problem[] {
  return NAMES.filter((rule) => rule.files.test(file)).map(({ because }) => ({ file, line: 1, message: because }))
}

type Declared = ReadonlyMap<string, ReadonlySet<string>>

function importProblems(file: string, target: string, declared: Declared): string[] {
  const home = packageOf(file)
  const neighbour = packageOf(target)
  if (neighbour !== undefined && neighbour !== home) {
    return [`write @bureau/${neighbour}; a package is entered through its exports`]
  }
  if (home === undefined || TEST_SUPPORT.test(file)) return []
  return [...packageProblems(home, target, declared), ...layerProblems(file, target)]
}

function packageProblems(home: string, target: string, declared: Declared): string[] {
  if (packageOf(target) === home) return []
  const rule = PACKAGES[home]
  if (!rule) return [`packages/${home} is not in the table of scripts/check-boundaries.ts`]

  const problems: string[] = []
  const ours = /^@bureau\/([^/]+)/.exec(target)?.[1]
  if (ours !== undefined && !rule.mayImport.includes(ours)) {
    problems.push(`${home} may import ${rule.mayImport.join(', ') || 'no other package'}`)
  }
  if (ours === undefined && rule.mustNotKnow.test(target)) problems.push(`${home} must not know it`)
  if (!target.startsWith('node:') && !declared.get(home)?.has(moduleName(target))) {
    problems.push(`packages/${home}/package.json does not list it`)
  }
  return problems
}

function layerProblems(file: string, target: string): string[] {
  return LAYERS.filter(
    (rule) => rule.files.test(file) && !rule.except?.test(file) && rule.mustNotImport.test(target),
  ).map((rule) => rule.because)
}

/** What a file imports: our own files by their path in the repository, everything else as it is written. */
function importsOf(root: string, file: string): { target: string; line: number }[] {
  const code = readFileSync(path.join(root, file), 'utf8')
  const { module } = parseSync(file, code)
  const written = [
    ...module.staticImports.map(({ moduleRequest }) => moduleRequest),
    ...module.staticExports.flatMap(({ entries }) => entries.map(({ moduleRequest }) => moduleRequest)),
    ...module.dynamicImports.map(({ moduleRequest: { start, end } }) => literal(code, start, end)),
  ]
  return written
    .filter((request) => request != null)
    .map(({ value, start }) => ({
      target: value.startsWith('.') ? path.posix.join(path.posix.dirname(file), value) : value,
      line: code.slice(0, start).split('\n').length,
    }))
}

/** The argument of a dynamic import, when it is a plain string. */
function literal(code: string, start: number, end: number): { value: string; start: number } | undefined {
  const value = /^(['"])(.*)\1$/.exec(code.slice(start, end))?.[2]
  return value === undefined ? undefined : { value, start }
}

function packageOf(repositoryPath: string): string | undefined {
  return /^packages\/([^/]+)\//.exec(repositoryPath)?.[1]
}

function moduleName(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

const Dependencies = z.record(z.string(), z.string()).default({})
const Manifest = z.object({
  dependencies: Dependencies,
  peerDependencies: Dependencies,
  optionalDependencies: Dependencies,
})

function declaredDependencies(root: string): Declared {
  return new Map(
    globSync('packages/*/package.json', { cwd: root }).map((file) => {
      const manifest = Manifest.parse(JSON.parse(readFileSync(path.join(root, file), 'utf8')))
      return [packageOf(file) ?? '', new Set(Object.values(manifest).flatMap((group) => Object.keys(group)))]
    }),
  )
}

if (import.meta.main) {
  const root = path.resolve(process.argv[2] ?? '.')
  const problems = [...checkBoundaries(root), ...checkCircles(root)]
  for (const { file, line, message } of problems) console.error(`${file}:${line} ${message}`)
  if (problems.length > 0) process.exitCode = 1
  else console.log('Boundaries: every import follows the arrows, and none go in a circle.')
}
