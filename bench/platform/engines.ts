import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { launch, type Launched } from '../launch.ts'
import { cpuReaderOfPostgres, type ReadCpu, readCpuOfEmbedded } from './cpu-shares.ts'

export type Engine = 'embedded' | 'PostgreSQL'

/** A platform on an empty database. */
type RunningPlatform = {
  readonly launched: Launched
  /** Undefined for the embedded database. */
  readonly databaseUrl: string | undefined
  /** To be asked for once the server has made its connections. */
  cpuReader(): Promise<ReadCpu>
  stop(): Promise<void>
}

const POSTGRES_URL = process.env['TEST_DATABASE_URL'] ?? 'postgres://root@127.0.0.1:5432/test'

const SERVER = join(import.meta.dirname, 'server.ts')

/** What a production set-up has to say, and no limits that are meant for callers. */
const ENVIRONMENT = {
  PUBLIC_BASE_URL: 'https://bench.example',
  PLATFORM_MASTER_KEY: '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff',
  PLATFORM_REQUESTS_PER_MINUTE: '1000000',
  PLATFORM_REQUEST_BURST: '1000000',
  PLATFORM_MAX_LAG_MS: '0',
  OPENAI_API_KEY: 'sk-bench',
}

/** @throws Error PostgreSQL cannot be reached. */
export async function startPlatform(engine: Engine, upstream: Launched): Promise<RunningPlatform> {
  const folder = mkdtempSync(join(tmpdir(), 'bureau-bench-'))
  const records = engine === 'PostgreSQL' ? await createSchema() : undefined
  const environment = {
    ...ENVIRONMENT,
    BUREAU_DATA: folder,
    OPENAI_BASE_URL: `http://127.0.0.1:${upstream.port}/v1`,
    ...(records && { DATABASE_URL: records.url }),
  }
  const clear = async (): Promise<void> => {
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
    await records?.drop()
  }
  try {
    const launched = await launch({ script: SERVER, environment })
    const { pid } = launched
    return {
      launched,
      databaseUrl: records?.url,
      cpuReader: async () =>
        records ? cpuReaderOfPostgres(pid, POSTGRES_URL, records.name) : () => readCpuOfEmbedded(pid),
      stop: async () => {
        await launched.stop()
        await clear()
      },
    }
  } catch (error) {
    await clear()
    throw error
  }
}

type Schema = { readonly name: string; readonly url: string; drop(): Promise<void> }

async function createSchema(): Promise<Schema> {
  const name = `bench_${randomUUID().replaceAll('-', '')}`
  await onServer(`CREATE SCHEMA ${name}`)
  const url = new URL(POSTGRES_URL)
  url.searchParams.set('options', `-c search_path=${name}`)
  url.searchParams.set('application_name', name)
  return { name, url: url.href, drop: () => onServer(`DROP SCHEMA ${name} CASCADE`) }
}

async function onServer(statement: string): Promise<void> {
  const client = new Client({ connectionString: POSTGRES_URL, connectionTimeoutMillis: 2_000 })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
