import { rename, rm } from 'node:fs/promises'
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import type { PGlite } from '@electric-sql/pglite'
import { drizzle } from 'drizzle-orm/pglite'
import { LaneQueue } from './lane-queue.ts'
import { migrate } from './migrate.ts'
import type { Operation, Tx } from './operation.ts'
import { PgliteConnection } from './pglite-connection.ts'
import { copyRecords, openEngine } from './pglite-engine.ts'
import { PlanAge } from './plan-age.ts'
import { commit, DRIZZLE, isTransactionOver, prepare, type Session, setLocal, SETTINGS } from './transaction.ts'
import {
  AbortedError,
  type FromWorker,
  type Job,
  type RunMessage,
  sendError,
  type ToWorker,
  type WorkerSetup,
} from './worker-messages.ts'

/**
 * The thread of the embedded database. PGlite executes queries synchronously: here they block nobody's timers.
 *
 * There is one connection, so operations run one after the other. Between two, the port is emptied without waiting for
 * the event loop, so that a newly arrived operation of a more urgent lane goes first.
 */
if (!parentPort) throw new Error('the thread of the embedded database was started as a process')
const port = parentPort
const queue = new LaneQueue<Job>()
const aborted = new Set<number>()
const operations = new Map<string, Operation<unknown, unknown>>()
let closing = false
let busy = false

const setup = workerData as WorkerSetup
const pglite = await openEngine(setup)
const connection = new PgliteConnection(pglite)
const plans = new PlanAge()
let lastTag = 'ROLLBACK'
const session: Session = {
  // Drizzle asks the driver for nothing but `query`. The drivers' result types differ in name only.
  tx: drizzle(connection as unknown as PGlite, DRIZZLE) as unknown as Tx,
  begin: async ({ begin, settings }) => void (await exec(plans.opening(`${begin}; ${setLocal(settings)}`))),
  exec,
}
await connection.exec(`SET TimeZone = '${SETTINGS['TimeZone']}'`)
await migrate(session)
port.on('message', (message: ToWorker) => {
  accept(message)
  void work()
})
send({ type: 'ready' })

async function exec(statements: string): Promise<string> {
  lastTag = 'unknown'
  lastTag = await connection.exec(statements)
  return lastTag
}

function accept(message: ToWorker): void {
  if (message.type === 'close') closing = true
  else if (message.type === 'abort') aborted.add(message.id)
  else queue.add(message)
}

function emptyPort(): void {
  for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) accept(next.message as ToWorker)
}

async function work(): Promise<void> {
  if (busy) return
  busy = true
  for (let job = queue.take(); job; emptyPort(), job = queue.take()) await answer(job)
  busy = false
  aborted.clear() // what is left came too late
  if (closing) await close()
}

async function answer(job: Job): Promise<void> {
  try {
    const result = await perform(job)
    send({ type: 'result', id: job.id, result })
  } catch (error) {
    // Ends the thread: nothing more can be trusted, least of all a transaction that was left open.
    if (isEngineFailure(error) || !isTransactionOver(lastTag)) throw error
    send({ type: 'error', id: job.id, error: sendError(error) })
  }
  aborted.delete(job.id)
}

function perform(job: Job): Promise<unknown> {
  if (job.type === 'backup') return backup(job.file)
  if (job.type === 'vacuum') return connection.exec(`VACUUM (ANALYZE) ${job.table}`)
  return run(job)
}

function isEngineFailure(error: unknown): boolean {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  return ['RuntimeError', 'ExitStatus'].includes(String((cause as { name?: unknown } | null)?.name))
}

async function run(job: RunMessage): Promise<unknown> {
  const operation = await findOperation(job)
  const stillWanted = (): void => {
    emptyPort()
    if (aborted.has(job.id)) throw new AbortedError()
  }
  const prepared = await prepare(session, operation, job.args, stillWanted)
  if (prepared.open) await commit(session)
  return prepared.result
}

async function findOperation({ source, name }: RunMessage): Promise<Operation<unknown, unknown>> {
  const known = operations.get(`${source} ${name}`)
  if (known) return known
  const module = (await import(source)) as Record<string, Operation<unknown, unknown> | undefined>
  const operation = module[name]
  if (operation?.name !== name) throw new Error(`${source} exports no operation ${name}`)
  operations.set(`${source} ${name}`, operation)
  return operation
}

/** Complete or absent: the file appears under its name only once it is on disk. Nothing is written meanwhile. */
async function backup(file: string): Promise<void> {
  const part = `${file}.part`
  try {
    await copyRecords(pglite, setup.recordsFolder, part)
    await rename(part, file)
  } catch (error) {
    await rm(part, { force: true }) // a disk that is full would stay so
    throw error
  }
}

async function close(): Promise<void> {
  await pglite.close()
  send({ type: 'closed' })
  port.close()
}

function send(message: FromWorker): void {
  port.postMessage(message)
}
