import { type SQL, sql } from 'drizzle-orm'
import { systemOperation } from '../db/operation.ts'

/** A task that this process has to do now; `position` is where it ended the last time. */
type DueTask = { readonly name: string; readonly position: string | null }

/** Makes tasks known that are new in this version. They are due at once. */
export const declareTasks = systemOperation(
  { source: import.meta.url, name: 'declareTasks', lane: 'maintenance' },
  async (tx, names: readonly string[]): Promise<void> => {
    await tx.execute(sql`INSERT INTO maintenance_tasks (name) SELECT jsonb_array_elements_text(${JSON.stringify(names)}::jsonb)
      ON CONFLICT DO NOTHING`)
  },
)

/** No task is put off for a day, unless by a clock that was ahead then: it would not be done until that time comes. */
const IS_DUE = sql`(due_at <= now() OR due_at > now() + interval '1 day')`

/** Part of a statement: whether any of these tasks is due. */
export const anyDueTasks = (names: readonly string[]): SQL =>
  sql`EXISTS (SELECT 1 FROM maintenance_tasks WHERE ${IS_DUE} AND name IN ${names})`

/**
 * Takes the tasks that are due. Each is taken by one process and comes again after its time, also when that process dies.
 *
 * `everyMs` says for each task that this version knows after how many milliseconds.
 */
export const takeDueTasks = systemOperation(
  { source: import.meta.url, name: 'takeDueTasks', lane: 'maintenance' },
  async (tx, everyMs: Readonly<Record<string, number>>): Promise<DueTask[]> => {
    const { rows } = await tx.execute<DueTask>(sql`
      WITH due AS (SELECT t.name, e.value::float8 AS every FROM maintenance_tasks t
        JOIN jsonb_each_text(${JSON.stringify(everyMs)}::jsonb) e ON e.key = t.name
        WHERE ${IS_DUE} FOR UPDATE OF t SKIP LOCKED)
      UPDATE maintenance_tasks t SET due_at = now() + due.every * interval '1 millisecond' FROM due
      WHERE t.name = due.name RETURNING t.name, t.position`)
    return rows
  },
)

export const setTaskPosition = systemOperation(
  { source: import.meta.url, name: 'setTaskPosition', lane: 'maintenance' },
  async (tx, { name, position }: DueTask): Promise<void> => {
    await tx.execute(sql`UPDATE maintenance_tasks SET position = ${position} WHERE name = ${name}`)
  },
)
