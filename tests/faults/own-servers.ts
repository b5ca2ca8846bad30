import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { freePort } from '../support/free-port.ts'
import { endWithUs } from './guard.ts'
import { eventually } from './plan.ts'

const START_MS = 30_000

/** A server program that tests may stop and start as they like. It keeps its port. */
export type OwnServer = {
  readonly url: string
  /** Of the process that was started; others are its children. */
  pid(): number
  start(): Promise<void>
  /** `crash`: as if it had been killed. */
  stop(how?: 'orderly' | 'crash'): Promise<void>
  /** Stops it and removes what it has stored. */
  remove(): Promise<void>
}

const postgresProgram = (name: string): string | undefined =>
  globSync(`/usr/lib/postgresql/*/bin/${name}`).toSorted().at(-1)

/** Whether this machine has the programs. */
export const HAS_POSTGRES = postgresProgram('initdb') !== undefined
export const HAS_REDIS = spawnSync('redis-server', ['--version']).status === 0
export const HAS_PGBOUNCER = spawnSync('pgbouncer', ['--version']).status === 0

/** A new PostgreSQL cluster, which is started. As root it runs as `postgres`, because it refuses root. */
export async function startPostgres(): Promise<OwnServer> {
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-postgres-'))
  const data = path.join(folder, 'data')
  const port = await freePort()
  const user = postgresUser()
  if (user) chownSync(folder, user.uid, user.gid)
  const postgres = (program: string, args: readonly string[]): Promise<void> =>
    runProgram(postgresProgram(program)!, args, user)
  await postgres('initdb', ['-D', data, '--username=root', '--auth=trust', '--encoding=UTF8', '--no-sync'])
  const settings = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off`
  const control = (...args: readonly string[]): Promise<void> => postgres('pg_ctl', ['-D', data, '-w', ...args])
  let hasEnded = (): void => {}
  const server: OwnServer = {
    url: `postgres://root@127.0.0.1:${port}/postgres`,
    pid: () => Number(readFileSync(path.join(data, 'postmaster.pid'), 'utf8').split('\n', 1)[0]),
    start: async () => {
      await control('-l', path.join(folder, 'log'), '-o', settings, 'start')
      hasEnded = endWithUs(server.pid())
    },
    stop: async (how = 'orderly') => {
      await control('-m', how === 'crash' ? 'immediate' : 'fast', 'stop')
      hasEnded()
    },
    remove: async () => {
      await server.stop('crash').catch(() => {}) // it may have been stopped already
      rmSync(folder, { recursive: true, force: true })
    },
  }
  await server.start()
  return server
}

/** A Redis that stores nothing on disk, which is started. */
export function startRedis(): Promise<OwnServer> {
  return startProgram((port) => {
    const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
    return { url: `redis://127.0.0.1:${port}`, command: 'redis-server', args }
  })
}

/** pgbouncer in transaction mode in front of a PostgreSQL, with so many connections to it. It is started. */
export function startPgbouncer(postgresUrl: string, connections: number): Promise<OwnServer> {
  const { hostname, port: targetPort, username } = new URL(postgresUrl)
  return startProgram((port, folder) => {
    const file = path.join(folder, 'pgbouncer.ini')
    const settings = `[databases]
* = host=${hostname} port=${targetPort} user=${username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${connections}
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
`
    writeFileSync(file, settings)
    return { url: `postgres://${username}@127.0.0.1:${port}/postgres`, command: 'pgbouncer', args: [file] }
  })
}

type User = { readonly uid: number; readonly gid: number }
type Program = { readonly url: string; readonly command: string; readonly args: readonly string[] }

/** PostgreSQL and pgbouncer refuse root. Undefined: this is another user anyway. */
function postgresUser(): User | undefined {
  if (process.getuid?.() !== 0) return undefined
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(spawnSync('id', [flag, 'postgres']).stdout))
  return { uid: uid!, gid: gid! }
}

/** @throws Error with what it printed. */
async function runProgram(command: string, args: readonly string[], user: User | undefined): Promise<void> {
  const child = spawn(command, args, { cwd: '/', stdio: ['ignore', 'ignore', 'pipe'], ...user })
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()))
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${complaint}`)
}

/** A server that runs in the foreground. */
async function startProgram(programOf: (port: number, folder: string) => Program): Promise<OwnServer> {
  const port = await freePort()
  const user = postgresUser()
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-own-'))
  if (user) chownSync(folder, user.uid, user.gid)
  const { url, command, args } = programOf(port, folder)
  let child: ChildProcess | undefined
  const stop: OwnServer['stop'] = async (how = 'orderly') => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill(how === 'crash' ? 'SIGKILL' : 'SIGTERM')
    await exited
  }
  const start = async (): Promise<void> => {
    child = spawn(command, args, { cwd: folder, stdio: 'ignore', ...user })
    child.once('exit', endWithUs(child.pid!))
    if (!(await eventually(() => accepts(port), START_MS))) throw new Error(`${command} does not listen`)
  }
  await start()
  const remove = async (): Promise<void> => {
    await stop('crash')
    rmSync(folder, { recursive: true, force: true })
  }
  return { url, pid: () => child?.pid ?? 0, start, stop, remove }
}

export async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  const isOpen = await once(socket, 'connect').then(
    () => true,
    () => false,
  )
  socket.destroy()
  return isOpen
}
