import { type Column, type SQL, sql } from 'drizzle-orm'

/** Where a page of a list ended: the sort key (RFC 3339 time or number, as text) and the id of its last row. */
export type Position = readonly [sort: string, id: string]

/** `limit` is 1 to 100 for requests, up to 1000 for exports. */
export type PageRequest = { readonly limit: number; readonly after: Position | null }

/** `next` is null on the last page. */
export type Page<Item> = { readonly items: Item[]; readonly next: Position | null }

/** Keeps the rows that come after a position in the order `time DESC, id DESC`. */
export function olderThan(time: Column | SQL, id: Column, after: Position | null): SQL | undefined {
  return after ? sql`(${time}, ${id}) < (${after[0]}::timestamptz, ${after[1]})` : undefined
}

/** A page of rows that were asked for with a limit of one more than the page has. */
export function toPage<Row, Item>(
  rows: readonly Row[],
  limit: number,
  view: (row: Row) => Item,
  positionOf: (row: Row) => Position,
): Page<Item> {
  const { items, next } = cutPage(rows, limit, positionOf)
  return { items: items.map(view), next }
}

/** The same of the rows themselves. */
export function cutPage<Row>(rows: readonly Row[], limit: number, positionOf: (row: Row) => Position): Page<Row> {
  const items = rows.slice(0, limit)
  const last = rows.length > limit ? items.at(-1) : undefined
  return { items, next: last === undefined ? null : positionOf(last) }
}
