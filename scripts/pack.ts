import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { z } from 'zod'

const ROOT = path.resolve(import.meta.dirname, '..')

/** Files of others that the packages serve, with their licences, by the place in `dist` that they go to. */
const COPIES: Readonly<Record<string, readonly string[]>> = {
  'packages/runtime/dist/assets': [
    'swagger-ui-dist/swagger-ui.css',
    'swagger-ui-dist/swagger-ui-bundle.js',
    'swagger-ui-dist/swagger-ui-bundle.js.LICENSE.txt',
    'redoc/bundles/redoc.standalone.js',
    'redoc/bundles/redoc.standalone.js.LICENSE.txt',
  ],
  'packages/runtime/dist/assets/swagger-ui': ['swagger-ui-dist/LICENSE', 'swagger-ui-dist/NOTICE'],
  'packages/runtime/dist/assets/redoc': ['redoc/LICENSE'],
}

/** The documents that every server shows, as packages/runtime/src/http/guide.ts reads them. */
const GUIDE = {
  from: ['docs/**/*.md', 'examples/*.{md,ts}', 'deploy/**/*.*', 'deploy/Dockerfile', 'ARCHITECTURE.md'],
  without: ['docs/decisions/0*.md', 'docs/protocol-rules/*.md'], // for those who change Bureau
  to: 'packages/runtime/dist/guide',
}

const Tarballs = z.array(z.object({ name: z.string(), filename: z.string(), unpackedSize: z.number() }))

/** A packed package; `filename` is absolute, sizes are in bytes. */
type Tarball = z.infer<typeof Tarballs>[number]

/**
 * Compiles all packages into their `dist`, from nothing, so that no file of a deleted source is left there.
 *
 * @throws Error with what the compiler says.
 */
function compile(): void {
  for (const left of globSync('packages/!(console)/{dist,*.tsbuildinfo}', { cwd: ROOT })) {
    rmSync(path.join(ROOT, left), { recursive: true })
  }
  const tsc = path.join(ROOT, 'node_modules/.bin/tsc')
  const { status, stdout, error } = spawnSync(tsc, ['--build', 'tsconfig.build.json'], { cwd: ROOT, encoding: 'utf8' })
  if (status !== 0) throw error ?? new Error(stdout)
  for (const [place, files] of Object.entries(COPIES)) {
    mkdirSync(path.join(ROOT, place), { recursive: true })
    for (const file of files) {
      cpSync(path.join(ROOT, 'node_modules', file), path.join(ROOT, place, path.basename(file)))
    }
  }
  copyLicence()
  for (const file of globSync(GUIDE.from, { cwd: ROOT, exclude: GUIDE.without }))
    cpSync(path.join(ROOT, file), path.join(ROOT, GUIDE.to, file))
  execFileSync(process.execPath, [path.join(ROOT, 'scripts/build-console.ts')])
  cpSync(path.join(ROOT, 'packages/console/dist'), path.join(ROOT, 'packages/runtime/dist/console'), {
    recursive: true,
  })
  compressPages()
  prepareRecords()
}

/** What browsers load is installed as it is sent. The documents stay readable: people and coding agents look there too. */
function compressPages(): void {
  const pages = 'packages/runtime/dist/{console,assets}/**/*.{html,js,css,svg}'
  for (const file of globSync(pages, { cwd: ROOT }).map((name) => path.join(ROOT, name))) {
    writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }))
    rmSync(file)
  }
}

/** A new embedded database with all migrations: to unpack it is a fifth of the work of making one. */
function prepareRecords(): void {
  const program = path.join(ROOT, 'scripts/prepare-records.ts')
  execFileSync(process.execPath, [program, path.join(ROOT, 'packages/platform/dist/db/records.tar.zst')])
}

/** Every package says on what terms it may be used. */
function copyLicence(): void {
  for (const manifest of globSync('packages/*/package.json', { cwd: ROOT })) {
    cpSync(path.join(ROOT, 'LICENSE'), path.join(ROOT, path.dirname(manifest), 'LICENSE'))
  }
}

/** Packs what `compile` has made, as `npm publish` would. `packages` are folder names; default: all that are published. */
function pack(destination: string, packages?: readonly string[]): Tarball[] {
  mkdirSync(destination, { recursive: true })
  const which = (packages ?? publishedPackages()).map((name) => `--workspace=packages/${name}`)
  const report = execFileSync('npm', ['pack', ...which, '--json', '--pack-destination', destination], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return Tarballs.parse(JSON.parse(report)).map((tarball) => ({
    ...tarball,
    filename: path.join(destination, tarball.filename),
  }))
}

/** Taken by whoever compiles and packs: all write to the same folders. */
const LOCK = path.join(ROOT, 'node_modules/.cache/bureau-pack.lock')

/** Nobody takes longer; a process that was killed leaves its lock behind. */
const LOCK_EXPIRES_MS = 300_000

/**
 * Compiles everything and packs `packages`, while no other process does: tests that run at the same time take turns. What
 * has not changed since it was compiled last is packed as it is, unless `anew` is true.
 */
export function compileAndPack(
  destination: string,
  { packages, anew = false }: { readonly packages?: readonly string[]; readonly anew?: boolean } = {},
): Tarball[] {
  mkdirSync(path.dirname(LOCK), { recursive: true })
  while (!takeLock()) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
  try {
    if (anew) rmSync(COMPILED, { force: true })
    compileChanged()
    return pack(destination, packages)
  } finally {
    rmSync(LOCK, { recursive: true, force: true })
  }
}

/** Of what was compiled last: names, sizes and times. */
const COMPILED = path.join(ROOT, 'node_modules/.cache/bureau-compiled')

const SOURCES = [
  'packages/*/{src,bin,migrations}/**/*',
  'packages/*/*.{json,html,ts}',
  'scripts/*.ts',
  'tsconfig*.json',
  'package-lock.json',
  'LICENSE',
  ...GUIDE.from,
]

function compileChanged(): void {
  const sources = globSync(SOURCES, { cwd: ROOT }).toSorted().map(stateOf).join('\n')
  const results = globSync('packages/*/tsconfig.build.json', { cwd: ROOT }).map((file) =>
    path.join(ROOT, file, '../dist'),
  )
  if (existsSync(COMPILED) && readFileSync(COMPILED, 'utf8') === sources && results.every(existsSync)) return
  rmSync(COMPILED, { force: true })
  compile()
  writeFileSync(COMPILED, sources)
}

function stateOf(file: string): string {
  const { size, mtimeMs } = statSync(path.join(ROOT, file))
  return `${file} ${size} ${mtimeMs}`
}

function takeLock(): boolean {
  try {
    mkdirSync(LOCK)
    return true
  } catch {
    const since = statSync(LOCK, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
    if (Date.now() - since > LOCK_EXPIRES_MS) rmSync(LOCK, { recursive: true, force: true })
    return false
  }
}

/** The folder names of the packages that are not private. */
function publishedPackages(): string[] {
  const manifests = globSync('packages/*/package.json', { cwd: ROOT })
  const isPublished = (file: string): boolean => !('private' in JSON.parse(readFileSync(path.join(ROOT, file), 'utf8')))
  return manifests.filter(isPublished).map((file) => path.basename(path.dirname(file)))
}
