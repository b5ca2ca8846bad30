import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, readdirSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from './temporary-folder.ts'
import { closeAfterTest } from './test-server.ts'

export const BIN = fileURLToPath(new URL('../../packages/cli/bin/bureau.mjs', import.meta.url))

export type BureauProcess = {
  readonly url: string
  readonly child: ChildProcess
  /** Everything printed so far, both outputs. */
  readonly output: () => string
  /** Resolves with the exit code. */
  readonly exited: Promise<number | null>
}

/**
 * Runs the `bureau` command as a process of its own on a free port, with a data folder of its own; resolves when it
 * says that it is ready. A platform begins with a new database that is there already, as a published one does.
 *
 * @param node - Which Node runs it; by default the one that runs the tests.
 */
export async function startBureau(
  args: readonly string[],
  env: Record<string, string> = {},
  node = process.execPath,
): Promise<BureauProcess> {
  const { BUREAU_DATA = await temporaryFolder() } = env
  const isEmbedded = ['start', 'platform'].includes(args[0]!) && env['DATABASE_URL'] === undefined
  if (isEmbedded && isEmpty(BUREAU_DATA)) {
    const { preparedFolder } = await import('@bureau/platform/testing')
    cpSync(await preparedFolder(), BUREAU_DATA, { recursive: true })
  }
  const child = spawn(node, [BIN, ...args], {
    env: { PATH: process.env['PATH'], PORT: '0', BUREAU_DATA, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit').then(([code]) => code as number | null)
  closeAfterTest(async () => {
    child.kill('SIGKILL')
    await exited
  })
  let output = ''
  const { promise: ready, resolve, reject } = Promise.withResolvers<string>()
  const read = (chunk: Buffer): void => {
    output += chunk.toString()
    const url = /Bureau is ready at ([^\s"]+)/.exec(output)?.[1]
    if (url) resolve(url)
  }
  child.stdout.on('data', read)
  child.stderr.on('data', read)
  void exited.then((code) => reject(new Error(`bureau exited with ${code} before it was ready:\n${output}`)))
  return { url: await ready, child, output: () => output, exited }
}

const isEmpty = (folder: string): boolean => !existsSync(folder) || readdirSync(folder).length === 0

/** Runs the `bureau` command to its end, with `input` as its standard input. */
export async function runBureau(
  args: readonly string[],
  env: Record<string, string> = {},
  { cwd, input = '' }: { readonly cwd?: string | undefined; readonly input?: string } = {},
): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> {
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd,
    env: { PATH: process.env['PATH'], PORT: '0', ...env },
    stdio: 'pipe',
  })
  closeAfterTest(async () => void child.kill('SIGKILL'))
  child.stdin.end(input)
  const closed = once(child, 'close')
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
  const [code] = (await closed) as [number | null]
  return { code, out, err }
}
