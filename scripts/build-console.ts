/**
 * Builds the console into the `dist` of its package, unless that is newer than all its sources.
 *
 * `node scripts/build-console.ts` is part of `npm start` and `npm run dev`: a clean clone builds it once, in a few seconds.
 */
import { existsSync, globSync, renameSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import { build } from 'vite'

const ROOT = path.resolve(import.meta.dirname, '..')
const CONSOLE = path.join(ROOT, 'packages/console')
const BUILT = path.join(CONSOLE, 'dist')
const SOURCES = [
  'packages/{console,client,protocol}/src/**/*',
  'packages/console/{index.html,vite.config.ts,package.json}',
]

async function buildConsole(): Promise<void> {
  const { NODE_ENV } = process.env
  const fresh = path.join(ROOT, `node_modules/.cache/console-${process.pid}`)
  // Vite builds for what the environment says, and tests have one of their own.
  process.env['NODE_ENV'] = 'production'
  try {
    await build({
      configFile: path.join(CONSOLE, 'vite.config.ts'),
      logLevel: 'warn',
      build: { outDir: fresh, emptyOutDir: true },
    })
    putInPlace(fresh)
  } finally {
    if (NODE_ENV === undefined) delete process.env['NODE_ENV']
    else process.env['NODE_ENV'] = NODE_ENV
  }
}

/** Whoever serves the console meanwhile, or builds it as well, never finds half of it. */
function putInPlace(fresh: string): void {
  const old = `${fresh}-old`
  if (existsSync(BUILT)) renameSync(BUILT, old)
  renameSync(fresh, BUILT)
  rmSync(old, { recursive: true, force: true })
}

/** Builds what a checkout serves, if it is older than its sources. */
export async function buildConsoleIfOld(): Promise<void> {
  const builtAt = changedAt(path.join(BUILT, 'index.html'))
  const sources = globSync(SOURCES, { cwd: ROOT }).map((file) => changedAt(path.join(ROOT, file)))
  if (Math.max(...sources) >= builtAt) await buildConsole()
}

/** Milliseconds since the epoch; 0: there is no such file. */
function changedAt(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
}

if (import.meta.main) await buildConsoleIfOld()
