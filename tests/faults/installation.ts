import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { preparedFolder, SERVER } from '@bureau/platform/testing'
import { Client } from 'pg'
import { CuttingProxy } from './cutting-proxy.ts'
import { type Fault, TOOL_CALLS } from './fault.ts'
import { Model } from './model.ts'
import { ServerProcess } from './server-process.ts'

export type Engine = 'embedded' | 'postgres'

export type Scale = { readonly engine: Engine; readonly processes: 1 | 2 | 3; readonly redis: boolean }

export type InstallationOptions = {
  /** Ends the first start of the first process. */
  readonly firstFault?: Fault | undefined
  /** Of every process. */
  readonly environment?: Readonly<Record<string, string>>
  /** An empty database that is this installation's alone. Default: a schema on the server of the tests. */
  readonly postgresUrl?: string
  /** In front of that database, for everything but the locks. */
  readonly poolerUrl?: string
  /** Default: the server of the tests. */
  readonly redisUrl?: string
}

const open = new Set<Installation>()
let isInterrupted = false

/** For whoever is interrupted: no process, folder or schema stays behind, and none is made any more. */
export async function closeInstallations(): Promise<void> {
  isInterrupted = true
  await Promise.all([...open].map((installation) => installation.close()))
}

const REDIS_URL = process.env['TEST_REDIS_URL'] ?? 'redis://127.0.0.1:6379'

/** An empty database with the processes that serve it, a model provider, and ways to the servers that can be cut. */
export class Installation {
  readonly scale: Scale
  readonly model: Model
  readonly database: CuttingProxy | undefined
  readonly redis: CuttingProxy | undefined
  readonly processes: ServerProcess[] = []
  /** Everything that ended processes printed. */
  pastOutput = ''
  apiKey = ''
  readonly #environment: Readonly<Record<string, string>>
  readonly #folder: string
  readonly #records: Records | undefined

  private constructor(scale: Scale, parts: Parts) {
    this.scale = scale
    this.model = parts.model
    this.database = parts.database
    this.redis = parts.redis
    this.#folder = parts.folder
    this.#records = parts.records
    this.#environment = environmentOf(parts)
    open.add(this)
  }

  /** Starts the first process, which makes the first owner, and then the others. */
  static async open(scale: Scale, options: InstallationOptions = {}): Promise<Installation> {
    const { firstFault, postgresUrl, redisUrl = REDIS_URL } = options
    if (isInterrupted) throw new Error('interrupted')
    const folder = mkdtempSync(path.join(tmpdir(), 'bureau-faults-'))
    const records = scale.engine === 'postgres' ? await openRecords(postgresUrl) : undefined
    if (!records) cpSync(await preparedFolder(), folder, { recursive: true })
    const installation = new Installation(scale, {
      folder,
      records,
      model: await Model.start(),
      database: records && (await CuttingProxy.start(postgresUrl ?? SERVER)),
      redis: scale.redis ? await CuttingProxy.start(redisUrl) : undefined,
      options,
    })
    if (firstFault && (await installation.start(0, firstFault))) throw new Error('the fault was never reached')
    for (let index = 0; index < scale.processes; index++) await installation.restart(index)
    return installation
  }

  /** The process at this place; undefined when the fault ended it before it served. */
  async start(
    index: number,
    fault: Fault | null = null,
    environment: Readonly<Record<string, string>> = {},
  ): Promise<ServerProcess | undefined> {
    const started = new ServerProcess({ ...this.#environment, ...environment, FAULT: JSON.stringify(fault) })
    this.processes[index] = started
    if (!(await started.ready())) {
      this.pastOutput += started.output
      if (fault === null) throw new Error(`a server did not start:\n${started.output.slice(-2_000)}`)
      return undefined
    }
    this.apiKey = this.#readApiKey()
    return started
  }

  /** Kills the process at this place, if it lives, and starts it again. On PostgreSQL its death is declared. */
  async restart(
    index: number,
    fault: Fault | null = null,
    environment: Readonly<Record<string, string>> = {},
  ): Promise<ServerProcess | undefined> {
    const old = this.processes[index]
    if (old) {
      old.kill()
      await old.exited
      this.pastOutput += old.output
    }
    await this.declareDeaths()
    return this.start(index, fault, environment)
  }

  /** The database by way of another proxy, for one process of several. Only on PostgreSQL. */
  databaseThrough(proxy: CuttingProxy): string {
    return proxy.through(this.#records!.url)
  }

  /** Of a query on PostgreSQL, past every proxy and process. */
  rows(query: string): Promise<Record<string, unknown>[]> {
    return this.#records!.rows(query)
  }

  /** Says at once who is dead, on PostgreSQL. */
  async declareDeaths(): Promise<void> {
    await this.#records?.declareDead(await this.#liveBoots())
  }

  /** What tools were called with, each time. */
  get toolCalls(): string[] {
    const file = path.join(this.#folder, TOOL_CALLS)
    return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []
  }

  get output(): string {
    return this.pastOutput + this.processes.map((process) => process.output).join('')
  }

  async close(): Promise<void> {
    if (!open.delete(this)) return
    for (const process of this.processes) process.kill()
    await Promise.all(this.processes.map((process) => process.exited))
    this.database?.close()
    this.redis?.close()
    await this.model.close()
    await this.#records?.drop()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #readApiKey(): string {
    const file = path.join(this.#folder, 'credentials.json')
    if (!existsSync(file)) throw new Error('a server is ready, and nobody has an API key')
    return (JSON.parse(readFileSync(file, 'utf8')) as { apiKey: string }).apiKey
  }

  async #liveBoots(): Promise<string[]> {
    const live = this.processes.filter((process) => !process.isOver)
    return Promise.all(live.map((process) => process.bootId()))
  }
}

type Parts = {
  readonly folder: string
  readonly records: Records | undefined
  readonly model: Model
  readonly database: CuttingProxy | undefined
  readonly redis: CuttingProxy | undefined
  readonly options: InstallationOptions
}

function environmentOf({ folder, records, model, database, redis, options }: Parts): Record<string, string> {
  const { poolerUrl, environment } = options
  const databaseUrl = records && database?.through(records.url)
  return {
    BUREAU_DATA: folder,
    PLATFORM_MASTER_KEY: randomBytes(32).toString('hex'),
    PLATFORM_REQUESTS_PER_MINUTE: '1000000',
    PLATFORM_REQUEST_BURST: '1000000',
    PLATFORM_MAX_LAG_MS: '0',
    BUREAU_ALLOWED_HOSTS: '127.0.0.1',
    LOG_LEVEL: 'info',
    OPENAI_API_KEY: 'sk-fault-runner',
    OPENAI_BASE_URL: model.baseUrl,
    ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
    ...(poolerUrl !== undefined &&
      databaseUrl !== undefined && {
        DATABASE_URL: `${poolerUrl}?pgbouncer=true`,
        DATABASE_DIRECT_URL: databaseUrl,
      }),
    ...(redis && { REDIS_URL: redis.url }),
    ...environment,
  }
}

/** The database of an installation, past every proxy. */
class Records {
  readonly url: string
  readonly #drop: string | undefined

  /** @param drop - What removes everything. */
  constructor(url: string, drop?: string) {
    this.url = url
    this.#drop = drop
  }

  async rows(query: string, parameters: unknown[] = []): Promise<Record<string, unknown>[]> {
    const client = new Client({ connectionString: this.url })
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query<Record<string, unknown>>(query, parameters)).rows
    } finally {
      await client.end()
    }
  }

  /**
   * Says at once of all processes but these that they are dead, as a process alone does not find out: nobody watches.
   * A database without tables yet has no processes.
   */
  async declareDead(live: readonly string[]): Promise<void> {
    const [found] = await this.rows("SELECT to_regclass('replicas') AS name")
    if (found?.['name'] === null) return
    const dead = "state IN ('live','draining') AND boot_id <> ALL($1)"
    const counted = `UPDATE runs SET stalled = stalled + 1 WHERE NOT released AND state = 'running'
      AND boot_id IN (SELECT boot_id FROM replicas WHERE ${dead})`
    await this.rows(counted, [live])
    await this.rows(`UPDATE replicas SET state = 'dead' WHERE ${dead}`, [live])
  }

  async drop(): Promise<void> {
    if (this.#drop !== undefined) await this.rows(this.#drop)
  }
}

/** By default a schema of its own on the PostgreSQL server of the tests. */
async function openRecords(postgresUrl: string | undefined): Promise<Records> {
  if (postgresUrl !== undefined) return new Records(postgresUrl)
  const name = `faults_${randomBytes(8).toString('hex')}`
  const url = new URL(SERVER)
  url.searchParams.set('options', `-c search_path=${name}`)
  const records = new Records(url.href, `DROP SCHEMA ${name} CASCADE`)
  await records.rows(`CREATE SCHEMA ${name}`)
  return records
}
