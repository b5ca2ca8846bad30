import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseEnv } from 'node:util'
import { Command } from 'commander'
import { checkAddress } from '@bureau/runtime'
import { FileWatcher } from '../dev/file-watcher.ts'
import { type ListenFlags, readListenOptions, withListenOptions } from '../listen-options.ts'
import { DEFAULT_FILES } from '../load-agencies.ts'
import { coloured } from '../terminal-text.ts'
import { withPlatform } from '../with-platform.ts'

type DevFlags = ListenFlags & { readonly platform?: boolean }

/** `bureau dev [file]`: a server that is started again whenever a source file changes. */
export const devCommand = withListenOptions(new Command('dev'))
  .description('Serve the agencies of a file and start again when it, or what it imports, changes.')
  .argument('[file]', 'a module that exports agencies (default: agency.ts)')
  .option('--platform', 'serve the hosted platform as well, as "bureau start" does')
  .action(async (file: string | undefined, { platform, ...flags }: DevFlags) => {
    // Mistakes that no change of a file repairs.
    if (platform) await withPlatform(async () => {})
    await checkAddress(readListenOptions(flags, process.env))
    const args = [platform ? 'start' : 'serve', ...(file === undefined ? [] : [file]), ...flagsOf(flags)]
    process.exit(await superviseServer(args, file === undefined ? DEFAULT_FILES : [file]))
  })

const ENVIRONMENT = '.env'

const REPORTER = new URL(`../dev/report-imports${path.extname(import.meta.url)}`, import.meta.url)

/** How long open streams may take to finish when a server is to end, in milliseconds. */
const STOP_MS = 2_000

/** When a server is killed that no signal has ended, in milliseconds: code that never returns keeps it from noticing one. */
const KILL_MS = 5_000

function flagsOf(flags: ListenFlags): string[] {
  return Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)])
}

/**
 * Runs a command of bureau until a signal stops it, and again whenever its module, what that imports or `.env` changes.
 *
 * @param modules - Where the module may be. As long as it is nowhere, it is waited for.
 * @returns The exit code of the last run; 0 when the signal came between two of them.
 */
async function superviseServer(args: readonly string[], modules: readonly string[]): Promise<number> {
  const env = environmentOfServers()
  let server: ChildProcess | undefined
  let stopped: NodeJS.Signals | undefined
  /** The server was asked to end already: a second signal would cut off what is still open. */
  let isEnding = false
  let wake = (): void => {}
  let changed = ''
  const watcher = new FileWatcher((file) => {
    changed = path.relative('', file)
    wake()
  })
  for (const file of [...modules, ENVIRONMENT]) watcher.add(path.resolve(file))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (stopped) server?.kill('SIGKILL')
      // A terminal sends Ctrl-C to both processes; the server must not count it twice.
      else if (!isEnding && (signal !== 'SIGINT' || !process.stdin.isTTY)) server?.kill(signal)
      stopped = signal
      wake()
    })
  }
  for (;;) {
    const change = new Promise<void>((resolve) => (wake = resolve))
    if (!modules.some((file) => existsSync(file))) {
      say(`There is no ${modules.join(' or ')} here: waiting until it is saved. Ctrl-C ends this.`)
      await change
      watcher.refresh() // The folder that was waited for may have appeared instead.
      if (!stopped) continue
      return 0
    }
    server = startServer({ args, env }, (file) => watcher.add(file))
    const ended = once(server, 'exit').then(([code]) => code as number | null)
    const crash = await Promise.race([ended, change])
    if (crash !== undefined && !stopped) {
      say('Save a file to start again.')
      await change
    }
    if (stopped) return (await endOf(server, ended)) ?? 1
    say(`${changed} has changed: starting again.`)
    isEnding = true
    server.kill('SIGTERM')
    await endOf(server, ended)
    isEnding = false
    if (stopped) return 0
    watcher.refresh()
  }
}

type Start = { readonly args: readonly string[]; readonly env: NodeJS.ProcessEnv }

function startServer({ args, env }: Start, onImport: (file: string) => void): ChildProcess {
  const command = [...process.execArgv, '--import', REPORTER.href, process.argv[1]!, ...args]
  const server = spawn(process.execPath, command, {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env,
  })
  server.on('message', onImport)
  return server
}

/** Without what this process has read from the file: each server reads it again, as it then is. */
function environmentOfServers(): NodeJS.ProcessEnv {
  const fromFile = existsSync(ENVIRONMENT) ? parseEnv(readFileSync(ENVIRONMENT, 'utf8')) : {}
  return Object.fromEntries(Object.entries(process.env).filter(([name, value]) => fromFile[name] !== value))
}

/** Waits for a server that has got a signal, and ends it when it takes too long. */
async function endOf<Code>(server: ChildProcess, ended: Promise<Code>): Promise<Code> {
  const hurry = setTimeout(() => server.kill('SIGTERM'), STOP_MS) // The second signal cuts what is still open.
  const kill = setTimeout(() => server.kill('SIGKILL'), KILL_MS)
  const code = await ended
  clearTimeout(hurry)
  clearTimeout(kill)
  return code
}

const say = (text: string): void => console.error(coloured('dim', text))
