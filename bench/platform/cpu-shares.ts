import { readdirSync, readFileSync } from 'node:fs'
import { Client } from 'pg'
import { cpuNs } from '../process-stats.ts'

/** CPU time so far, in nanoseconds, of the parts of a platform. */
export type CpuShares = {
  /** All threads of the server but the embedded database's. */
  readonly serverNs: number
  /** The thread of the embedded database, or PostgreSQL's processes for this server's connections. */
  readonly databaseNs: number
}

export type ReadCpu = () => CpuShares

/** Of a server with the embedded database: its one worker thread. */
export function readCpuOfEmbedded(pid: number): CpuShares {
  const databaseNs = readdirSync(`/proc/${pid}/task`)
    .filter((thread) => nameOf(pid, thread) === 'WorkerThread')
    .reduce((sum, thread) => sum + schedstatNs(`/proc/${pid}/task/${thread}`), 0)
  return { serverNs: cpuNs(pid) - databaseNs, databaseNs }
}

/** Of a server on PostgreSQL, which connects as `applicationName`. Processes on another machine count as nothing. */
export async function cpuReaderOfPostgres(pid: number, url: string, applicationName: string): Promise<ReadCpu> {
  const client = new Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ pid: number }>(
    'SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND pid <> pg_backend_pid()',
    [applicationName],
  )
  await client.end()
  return () => ({
    serverNs: cpuNs(pid),
    databaseNs: rows.reduce((sum, backend) => sum + schedstatNs(`/proc/${backend.pid}`), 0),
  })
}

/** Time that this machine has spent working so far, on anything, in nanoseconds. */
export function machineNs(): number {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = readFileSync('/proc/stat', 'latin1')
    .split('\n', 1)[0]!
    .trim()
    .split(/\s+/)
    .slice(1)
    .map(Number)
  return (user + nice + system + irq + softirq) * 1e7
}

function nameOf(pid: number, thread: string): string {
  try {
    return readFileSync(`/proc/${pid}/task/${thread}/comm`, 'latin1').trim()
  } catch {
    return '' // it has ended since it was listed
  }
}

function schedstatNs(folder: string): number {
  try {
    return Number(readFileSync(`${folder}/schedstat`, 'latin1').split(' ', 1)[0])
  } catch {
    return 0
  }
}
