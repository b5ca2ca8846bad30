import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { freePort } from '../tests/support/free-port.ts'
import { pause } from './load.ts'

export type Launched = {
  readonly pid: number
  readonly port: number
  /** Milliseconds from spawning to the first accepted connection. */
  readonly startUpMs: number
  /** Makes the process collect its garbage. Returns the bytes of heap that are left. */
  collectGarbage(): Promise<number>
  /** Sends the process a message and resolves with its next one. */
  ask(message: string): Promise<unknown>
  /** Everything that it has printed lately, both outputs. */
  output(): string
  stop(): Promise<void>
}

type Program = {
  readonly script: string
  /** Processor core to run on; ignored without `taskset`. Absent: any. */
  readonly core?: number
  readonly environment?: Readonly<Record<string, string>>
}

const START_LIMIT_MS = 30_000

export const HAS_TASKSET = spawnSync('taskset', ['--version']).status === 0

const running = new Set<ChildProcess>()

/** Moves this process, with all its threads, to one core. Does nothing without `taskset`. */
export function moveToCore(core: number): void {
  if (HAS_TASKSET) spawnSync('taskset', ['--all-tasks', '--cpu-list', '--pid', String(core), String(process.pid)])
}

/**
 * Starts one program of this folder on a free port and waits until it accepts connections.
 *
 * @throws Error with the end of its output when it exits or is not ready after 30 seconds.
 */
export async function launch({ script, core, environment = {} }: Program): Promise<Launched> {
  const port = await freePort()
  const flags = ['--conditions=@bureau/source', '--expose-gc', script]
  const [command, args] =
    HAS_TASKSET && core !== undefined
      ? ['taskset', ['--cpu-list', String(core), process.execPath, ...flags]]
      : [process.execPath, flags]
  const startedAt = performance.now()
  const child = spawn(command, args, {
    // Nothing else of the caller's environment: a token or database there would be measured too.
    env: { PATH: process.env['PATH'], NODE_ENV: 'production', ...environment, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  running.add(child)
  child.once('exit', () => running.delete(child))
  const output = keepOutput(child)
  await ready(child, { port, script, output })
  const startUpMs = performance.now() - startedAt
  return {
    pid: child.pid ?? 0,
    port,
    startUpMs,
    collectGarbage: async () => Number(await ask(child, 'collect garbage')),
    ask: (message) => ask(child, message),
    output,
    stop: () => stop(child),
  }
}

export async function stopAll(): Promise<void> {
  await Promise.all([...running].map((child) => stop(child)))
}

function keepOutput(child: ChildProcess): () => string {
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output = `${output}${text}`.slice(-4000)
    })
  }
  return () => output
}

type Starting = { readonly port: number; readonly script: string; readonly output: () => string }

async function ready(child: ChildProcess, { port, script, output }: Starting): Promise<void> {
  const deadline = performance.now() + START_LIMIT_MS
  while (!(await accepts(port))) {
    const problem = child.exitCode !== null ? `exited with ${child.exitCode}` : 'is not ready'
    if (child.exitCode !== null || performance.now() > deadline) throw new Error(`${script} ${problem}:\n${output()}`)
    await pause(2)
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const settle = (accepted: boolean): void => {
      socket.destroy()
      resolve(accepted)
    }
    socket.once('connect', () => settle(true))
    socket.once('error', () => settle(false))
  })
}

async function ask(child: ChildProcess, message: string): Promise<unknown> {
  const answered = once(child, 'message', { signal: AbortSignal.timeout(30_000) })
  child.send(message)
  const [answer] = (await answered) as [unknown]
  return answer
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  const patience = setTimeout(() => child.kill('SIGKILL'), 3000)
  await exited
  clearTimeout(patience)
}
