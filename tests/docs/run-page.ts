import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { freePort } from '../support/free-port.ts'
import { printsAsShown } from './expected-output.ts'
import { type Block, blocksOf, fileOf, isCommand, ROOT } from './page.ts'

/** A command that takes longer than this hangs. */
const COMMAND_TIMEOUT_MS = 180_000

/**
 * The packages are the sources of the repository, so neither npx nor the compiler must look anywhere else; the chat must find
 * its server.
 */
const PRELUDE = `set -eu -o pipefail
tsc() { command tsc --customConditions @bureau/source "$@"; }
npx() { if [ "$1 \${2-}" = 'bureau chat' ]; then shift 2; set -- bureau chat --url "http://127.0.0.1:$PORT" "$@"; fi; "$@"; }
`

/** What a command must not print unless its page shows it. */
const FAILURE = /"error":"|internal_error|Warning:/

/**
 * Follows a page as a reader would, in a folder of its own. The default port becomes a free one, so that pages can be
 * followed at the same time. Returns what each command has printed.
 */
export async function runPage(page: string): Promise<string[]> {
  mkdirSync(path.join(ROOT, '.docs-run'), { recursive: true })
  const folder = mkdtempSync(path.join(ROOT, '.docs-run', `${page.replaceAll(/\W+/g, '-')}-`))
  const port = String(await freePort())
  const reader = new Reader(folder, port)
  try {
    const blocks = blocksOf(page).map((block) => ({ ...block, text: block.text.replaceAll('8000', port) }))
    for (const [at, block] of blocks.entries()) await reader.follow(block, blocks[at + 1])
    return reader.printed
  } finally {
    await reader.leave()
    rmSync(folder, { recursive: true, force: true })
  }
}

class Reader {
  readonly printed: string[] = []
  readonly #folder: string
  readonly #env: Record<string, string>
  #server: ChildProcess | undefined

  constructor(folder: string, port: string) {
    const PATH = `${path.join(ROOT, 'node_modules/.bin')}:${process.env['PATH']}`
    this.#folder = folder
    this.#env = { PATH, HOME: folder, PORT: port, NODE_OPTIONS: '--conditions=@bureau/source', NO_COLOR: '1' }
  }

  async follow(block: Block, next: Block | undefined): Promise<void> {
    const file = fileOf(block)
    if (file !== undefined) return this.#save(file, block.text)
    if (!isCommand(block)) return
    if (block.words.includes('server')) return this.#replaceServer(block)
    const printed = await this.#run(block)
    this.printed.push(printed)
    const shown = next?.words.includes('output') ? next.text : undefined
    if (shown === undefined ? FAILURE.test(printed) : !printsAsShown(printed, shown)) {
      throw new Error(`${at(block)} printed:\n${printed}\n${shown === undefined ? '' : `The page shows:\n${shown}`}`)
    }
  }

  async leave(): Promise<void> {
    if (!this.#server || this.#server.exitCode !== null || this.#server.signalCode !== null) return
    const closed = once(this.#server, 'close')
    kill(this.#server)
    await closed
  }

  /** One port, one server: the one before has been stopped. */
  async #replaceServer(block: Block): Promise<void> {
    await this.leave()
    this.#server = await this.#serve(block)
  }

  #save(file: string, text: string): void {
    const target = path.join(this.#folder, file)
    mkdirSync(path.dirname(target), { recursive: true })
    writeFileSync(target, text)
  }

  async #run(block: Block): Promise<string> {
    const { child, output } = this.#spawn(block)
    const timer = setTimeout(() => kill(child), COMMAND_TIMEOUT_MS)
    const [code] = (await once(child, 'close')) as [number | null]
    clearTimeout(timer)
    const how = code === null ? `ran longer than ${COMMAND_TIMEOUT_MS} ms` : `ended with ${code}`
    if (code !== 0) throw new Error(`${at(block)} ${how}:\n${block.text}\n${output()}`)
    return output()
  }

  async #serve(block: Block): Promise<ChildProcess> {
    const { child, output } = this.#spawn(block)
    const { promise: ready, resolve, reject } = Promise.withResolvers<void>()
    const fail = (how: string): void => {
      kill(child)
      reject(new Error(`${at(block)} ${how}:\n${block.text}\n${output()}`))
    }
    const timer = setTimeout(() => fail('was not ready in time'), COMMAND_TIMEOUT_MS)
    const read = (): void => void (/ready (?:at|in) /.test(output()) && resolve())
    child.stdout!.on('data', read)
    child.stderr!.on('data', read)
    child.on('exit', (code) => fail(`ended with ${code}`))
    await ready.finally(() => clearTimeout(timer))
    return child
  }

  #spawn({ text, words }: Block): { child: ChildProcess; output: () => string } {
    const cwd = words.includes('in=repository') ? ROOT : this.#folder
    const stdio = ['ignore', 'pipe', 'pipe'] as const
    const child = spawn('bash', ['-c', PRELUDE + text], { cwd, env: this.#env, stdio: [...stdio], detached: true })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
    return { child, output: () => output }
  }
}

/** The command and everything it has started. */
function kill(child: ChildProcess): void {
  try {
    process.kill(-child.pid!, 'SIGKILL')
  } catch {
    // It has ended already.
  }
}

function at({ page, line }: Block): string {
  return `${page}:${line}`
}
