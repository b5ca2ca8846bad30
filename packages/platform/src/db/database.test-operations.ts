import { ServiceError } from '@bureau/protocol'
import { eq, sql } from 'drizzle-orm'
import { bigint, jsonb, pgTable, text, timestamp } from 'drizzle-orm/pg-core'
import { RollbackWith, systemOperation, type Tx } from './operation.ts'
import { prepared } from './prepared.ts'
import { together } from './together.ts'

// In a file of their own because the worker of the embedded database imports them.
const source = import.meta.url
const lane = 'interactive'

const insert = (tx: Tx, name: string) => tx.execute(sql`INSERT INTO things (name) VALUES (${name})`)

export const insertThing = systemOperation({ source, name: 'insertThing', lane }, async (tx, name: string) => {
  await insert(tx, name)
  return name
})

export const countThings = systemOperation(
  { source, name: 'countThings', lane, onlyReads: true },
  async (tx, name: string) => {
    const { rows } = await tx.execute<{ n: number }>(sql`SELECT count(*)::int AS n FROM things WHERE name = ${name}`)
    return rows[0]?.n
  },
)

/** The number of its transaction, where one that may write gets its number at once. */
export const numberOfReading = systemOperation(
  { source, name: 'numberOfReading', lane: 'run', onlyReads: true },
  async (tx) => {
    const { rows } = await tx.execute<{ xid: string | null }>(sql`SELECT pg_current_xact_id_if_assigned()::text AS xid`)
    return rows[0]?.xid
  },
)

export const writeWhileReading = systemOperation(
  { source, name: 'writeWhileReading', lane: 'run', onlyReads: true },
  async (tx, name: string) => void (await insert(tx, name)),
)

export const refuse = systemOperation({ source, name: 'refuse', lane }, async (tx, name: string) => {
  await insert(tx, name)
  throw new ServiceError('run_active', { headers: { 'X-Agent-Active-Run-Id': 'run_1' } })
})

export const rollbackWithAnswer = systemOperation(
  { source, name: 'rollbackWithAnswer', lane },
  async (tx, name: string): Promise<string> => {
    await insert(tx, name)
    throw new RollbackWith('known already')
  },
)

export const ignoreFailedStatement = systemOperation(
  { source, name: 'ignoreFailedStatement', lane },
  async (tx, name: string) => {
    await insert(tx, name)
    await tx.execute(sql`SELECT 1 / 0`).catch(() => {})
    return name
  },
)

export const failAfterWrite = systemOperation({ source, name: 'failAfterWrite', lane }, async (tx, name: string) => {
  await insert(tx, name)
  throw new Error('a defect')
})

export const insertTogether = systemOperation(
  { source, name: 'insertTogether', lane },
  async (tx, names: readonly string[]): Promise<unknown> =>
    together(...names.map((name) => insertThen(tx, name)), tx.execute(sql`SELECT count(*)::int AS n FROM things`)),
)

/** A part of an operation that asks again when it has its answer, or fails by itself. */
async function insertThen(tx: Tx, name: string): Promise<void> {
  if (name === 'nothing') throw new Error('no such thing')
  await insert(tx, name)
  await insert(tx, `second ${name}`)
}

/** Ends the thread that executes it, as a defect of the engine would. On PostgreSQL that thread is the process. */
export const endThread = systemOperation({ source, name: 'endThread', lane }, (): Promise<never> => process.exit(3))

/** Answers on the lane of running runs. */
export const urgentCount = systemOperation({ source, name: 'urgentCount', lane: 'run' }, async (tx) => {
  const { rows } = await tx.execute<{ n: number }>(sql`SELECT count(*)::int AS n FROM things`)
  return rows[0]?.n
})

/** Waits for an advisory lock, as admissions wait for the row of a chat or consumer. */
export const admitUnderLock = systemOperation(
  { source, name: 'admitUnderLock', lane: 'admission' },
  async (tx, key: number) => {
    await tx.execute(sql`SELECT pg_advisory_xact_lock(${key})`)
  },
)

const parts = pgTable('parts', {
  id: text().primaryKey(),
  weight: bigint({ mode: 'number' }),
  madeAt: timestamp({ withTimezone: true, precision: 3, mode: 'date' }),
  notes: jsonb().$type<readonly string[]>(),
})

export const PARTS = `CREATE TABLE parts
  (id text PRIMARY KEY, weight bigint, made_at timestamptz(3), notes jsonb)`

type Part = typeof parts.$inferSelect

const putPart = prepared((tx, { id, weight, madeAt, notes }: Part) =>
  tx
    .insert(parts)
    .values({ id, weight, madeAt, notes })
    .onConflictDoUpdate({
      target: parts.id,
      set: { weight: sql`excluded.weight`, madeAt: sql`excluded.made_at`, notes: sql`excluded.notes` },
    }),
)

const selectPart = prepared((tx, { id }: { readonly id: string }) => tx.select().from(parts).where(eq(parts.id, id)))

/** Stores each in turn and answers what is then there. */
export const storeParts = systemOperation({ source, name: 'storeParts', lane }, async (tx, stored: readonly Part[]) => {
  const found: (Part & { readonly isNull: boolean })[] = []
  for (const part of stored) {
    await putPart(tx, part)
    const [row] = await selectPart(tx, { id: part.id })
    const { rows } = await tx.execute<{ none: boolean }>(
      sql`SELECT notes IS NULL AS none FROM parts WHERE id = ${part.id}`,
    )
    if (row) found.push({ ...row, isNull: rows[0]?.none === true })
  }
  return found
})

/** The statements that the connection keeps. */
export const listKeptStatements = systemOperation({ source, name: 'listKeptStatements', lane }, async (tx) => {
  const { rows } = await tx.execute<{ statement: string }>(sql`SELECT statement FROM pg_prepared_statements`)
  return rows.map(({ statement }) => statement)
})

/** Asks something different every time. */
export const askDifferently = systemOperation({ source, name: 'askDifferently', lane }, async (tx, times: number) => {
  let sum = 0
  for (let index = 0; index < times; index++) {
    const { rows } = await tx.execute<{ value: number }>(sql.raw(`SELECT ${index} AS value`))
    sum += rows[0]?.value ?? 0
  }
  return sum
})
