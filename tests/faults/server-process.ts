import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Violation } from '@bureau/platform/testing'
import type { Fault, FromServer, ToServer } from './fault.ts'
import { endWithUs } from './guard.ts'

const PROGRAM = fileURLToPath(new URL('server.ts', import.meta.url))
/** As `bureau platform` does: half of what a start costs. */
const QUICK_START = ['--import', import.meta.resolve('@bureau/platform/quick-start')]
const COMPILED = path.join(tmpdir(), 'bureau-faults-compiled')
const START_MS = 180_000
const ANSWER_MS = 30_000

/** One life of one server process. */
export class ServerProcess {
  readonly child: ChildProcess
  /** The signal or the code that it ended with. */
  readonly exited: Promise<NodeJS.Signals | number | null>
  /** How often each database operation was asked for, before and after it was ready. */
  readonly starting = new Map<string, number>()
  readonly serving = new Map<string, number>()
  url = ''
  output = ''
  isOver = false
  readonly #answers = new Map<number, (value: unknown) => void>()
  readonly #waiting = new Set<() => void>()
  readonly #ready = Promise.withResolvers<void>()
  #isReady = false
  #lastId = 0

  constructor(environment: Readonly<Record<string, string>>) {
    this.child = spawn(process.execPath, ['--conditions=@bureau/source', ...QUICK_START, '--expose-gc', PROGRAM], {
      env: { PATH: process.env['PATH'], NODE_COMPILE_CACHE: COMPILED, ...environment },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    const hasEnded = endWithUs(this.child.pid!)
    this.child.stdout?.on('data', (chunk: Buffer) => (this.output += chunk.toString()))
    this.child.stderr?.on('data', (chunk: Buffer) => (this.output += chunk.toString()))
    this.child.on('message', (message: FromServer) => this.#hear(message))
    this.exited = once(this.child, 'exit').then(([code, signal]) => {
      this.isOver = true
      hasEnded()
      for (const look of this.#waiting) look()
      return (signal ?? code) as NodeJS.Signals | number | null
    })
  }

  /** Resolves to whether it serves: false when it ended before. */
  async ready(): Promise<boolean> {
    const late = setTimeout(() => this.kill(), START_MS)
    await Promise.race([this.#ready.promise, this.exited])
    clearTimeout(late)
    return this.#isReady
  }

  arm(fault: Fault | null): void {
    this.#send({ type: 'arm', fault })
  }

  violations(): Promise<Violation[]> {
    return this.#ask({ type: 'violations', id: ++this.#lastId }) as Promise<Violation[]>
  }

  rows(query: string): Promise<Record<string, unknown>[]> {
    return this.#ask({ type: 'rows', id: ++this.#lastId, query }) as Promise<Record<string, unknown>[]>
  }

  /** Bytes after garbage collection. */
  heap(): Promise<number> {
    return this.#ask({ type: 'heap', id: ++this.#lastId }) as Promise<number>
  }

  bootId(): Promise<string> {
    return this.#ask({ type: 'bootId', id: ++this.#lastId }) as Promise<string>
  }

  /** Resolves when an operation was asked for so many times since the process serves, or the process has ended. */
  reached(operation: string, times = 1): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const look = (): void => {
      if (!this.isOver && (this.serving.get(operation) ?? 0) < times) return
      this.#waiting.delete(look)
      resolve()
    }
    this.#waiting.add(look)
    look()
    return promise
  }

  kill(): void {
    this.child.kill('SIGKILL')
  }

  #send(message: ToServer): void {
    if (this.child.connected) this.child.send(message, () => {}) // it may die meanwhile
  }

  async #ask(message: Exclude<ToServer, { type: 'arm' }>): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#answers.set(message.id, resolve)
    const late = setTimeout(() => reject(new Error(`the server did not answer "${message.type}"`)), ANSWER_MS)
    this.#send(message)
    try {
      const value = await promise
      if (value instanceof Object && 'failed' in value) throw new Error(String(value.failed))
      return value
    } finally {
      clearTimeout(late)
    }
  }

  #hear(message: FromServer): void {
    if (message.type === 'ready') {
      this.url = message.url
      this.#isReady = true
      this.#ready.resolve()
    } else if (message.type === 'answer') this.#answers.get(message.id)?.(message.value)
    else {
      const counts = this.#isReady ? this.serving : this.starting
      counts.set(message.name, (counts.get(message.name) ?? 0) + 1)
      for (const look of this.#waiting) look()
    }
  }
}
