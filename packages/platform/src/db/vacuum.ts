import { sql } from 'drizzle-orm'
import { PgliteDatabase } from './database.pglite.ts'
import type { Database } from './database.ts'
import { systemOperation } from './operation.ts'

/**
 * The tables that a PostgreSQL server would clean by itself by now, the worst first.
 *
 * A table that has no record of a cleaning is one of them: the counters do not survive a killed process. So is one whose
 * oldest transaction lies far back, however little it changes: transaction numbers are finite.
 */
export const listTablesToVacuum = systemOperation(
  { source: import.meta.url, name: 'listTablesToVacuum', lane: 'maintenance', onlyReads: true },
  async (tx): Promise<string[]> => {
    const { rows } = await tx.execute<{ name: string }>(sql`SELECT c.oid::regclass::text AS name
      FROM pg_class c JOIN pg_stat_all_tables s ON s.relid = c.oid
      WHERE c.relkind = 'r' AND (age(c.relfrozenxid) > 50000000
        OR (c.relnamespace = current_schema()::regnamespace AND (
          s.n_dead_tup > 50 + 0.2 * s.n_live_tup
          OR s.n_mod_since_analyze > 500 + 0.2 * s.n_live_tup
          OR (s.last_vacuum IS NULL AND pg_relation_size(c.oid) > 0))))
      ORDER BY age(c.relfrozenxid) > 50000000 DESC, s.n_dead_tup DESC`)
    return rows.map(({ name }) => name)
  },
)

/**
 * Makes room that deleted and changed rows have left usable again, and counts what the planner must know.
 *
 * The embedded database has no autovacuum: without this its files grow for ever. Each table is a job of its own on the
 * last lane, so that it waits while there is anything else to do, and everybody else goes first in between.
 *
 * @returns The tables that were cleaned; none on a PostgreSQL server, which sees to it itself.
 */
export async function vacuumDatabase(db: Database): Promise<string[]> {
  if (!(db instanceof PgliteDatabase)) return []
  const tables = await db.run(listTablesToVacuum, undefined)
  for (const table of tables) await db.vacuum(table)
  return tables
}
