/**
 * Measures lists and summaries of an owner with many runs, over HTTP, on PostgreSQL.
 * Run: node --conditions=@bureau/source bench/platform/lists.ts [runs, default 1000000]. Linux only; a million runs take some minutes to
 * make. PostgreSQL: TEST_DATABASE_URL, in a schema of its own that is dropped afterwards.
 */
import { foldUsage, seededConsumer, seededIntegration, seedHistory } from '@bureau/platform/testing'
import { openDatabase } from '@bureau/platform'
import { join } from 'node:path'
import { Client } from 'pg'
import { launch, stopAll } from '../launch.ts'
import { median } from '../process-stats.ts'
import { startPlatform } from './engines.ts'
import { openTenant } from './tenant.ts'

const DAY_MS = 86_400_000
const REPEATS = 15
const runs = Number(process.argv[2] ?? 1_000_000)
const ago = (days: number): string => new Date(Date.now() - days * DAY_MS).toISOString()
const month = `from=${ago(60)}&to=${ago(30)}`
const year = `from=${ago(199)}&to=${ago(0)}`

const requestsOf = (integration: string, other: string): Readonly<Record<string, string>> => ({
  'runs, all': '/v1/runs?limit=20',
  'runs of an integration': `/v1/runs?limit=20&apiIntegrationId=${other}`,
  'runs of a consumer': `/v1/runs?limit=20&consumerId=${seededConsumer(3)}`,
  'runs that failed': '/v1/runs?limit=20&status=failed',
  'runs that failed, of an integration': `/v1/runs?limit=20&status=failed&apiIntegrationId=${other}`,
  'runs that are running': '/v1/runs?limit=20&status=running',
  'runs of a month': `/v1/runs?limit=20&createdAfter=${ago(190)}&createdBefore=${ago(160)}`,
  'chats of an integration': `/v1/chats?limit=20&apiIntegrationId=${other}`,
  'chats of a consumer': `/v1/chats?limit=20&consumerId=${seededConsumer(3)}`,
  'chats with an alias': '/v1/chats?limit=20&aliasChatId=alias-500',
  'members, all': `/v1/integrations/${integration}/members?limit=20`,
  'members that are inactive': `/v1/integrations/${integration}/members?limit=20&status=inactive`,
  'members without allowance left': `/v1/integrations/${integration}/members?limit=20&exhausted=true`,
  'usage records of a consumer': `/v1/usage/records?limit=20&consumerId=${seededConsumer(3)}`,
  'usage record of a request': '/v1/usage/records?limit=20&usageRequestId=request-777',
  'summary of a month by day': `/v1/usage/summary?groupBy=day&${month}&timeZone=Europe/Berlin`,
  'summary of a month by day, Asia/Kathmandu': `/v1/usage/summary?groupBy=day&${month}&timeZone=Asia/Kathmandu`,
  'summary of a month by integration': `/v1/usage/summary?groupBy=integration&${month}`,
  'summary of a month by model': `/v1/usage/summary?groupBy=model&${month}`,
  'summary of a month by consumer': `/v1/usage/summary?groupBy=consumer&${month}`,
  'summary of a month by consumer, the 100 that cost most': `/v1/usage/summary?groupBy=consumer&limit=100&${month}`,
  'summary of 199 days by day': `/v1/usage/summary?groupBy=day&${year}`,
})

try {
  const upstream = await launch({ script: join(import.meta.dirname, '..', 'upstream.ts') })
  const running = await startPlatform('PostgreSQL', upstream)
  try {
    const { token, port, integrations } = await openTenant(running.launched, 1)
    await seed(running.databaseUrl ?? '', integrations.plain)
    console.log(`| ${runs.toLocaleString('en')} runs of one owner | p50 | slowest of ${REPEATS} |\n|---|---|---|`)
    const requests = requestsOf(integrations.plain, seededIntegration(integrations.plain, 2))
    for (const [name, path] of Object.entries(requests)) {
      const times = await timesOf(`http://127.0.0.1:${port}${path}`, token)
      console.log(`| ${name} | ${median(times).toFixed(1)} ms | ${Math.max(...times).toFixed(1)} ms |`)
    }
  } finally {
    await running.stop()
  }
} finally {
  await stopAll()
}

async function seed(url: string, integrationId: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ owner_id: string }>('SELECT owner_id FROM integrations WHERE id = $1', [
    integrationId,
  ])
  await seedHistory((statement) => client.query(statement), { ownerId: rows[0]!.owner_id, integrationId, runs })
  console.error('made the runs; adding their usage up')
  const db = await openDatabase(url)
  while ((await db.run(foldUsage, undefined)) > 0) {
    // There are more.
  }
  await db.close()
  await client.query('VACUUM ANALYZE')
  await client.end()
}

/** Milliseconds of each request; the first two, which read from disk and plan, do not count. */
async function timesOf(url: string, token: string): Promise<number[]> {
  const times: number[] = []
  for (let count = 0; count < REPEATS + 2; count++) {
    const startedAt = performance.now()
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } })
    const text = await response.text()
    if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text}`)
    if (count >= 2) times.push(performance.now() - startedAt)
  }
  return times
}
