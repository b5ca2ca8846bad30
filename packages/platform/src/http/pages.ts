import { type ErrorCode, listOf, PageQuery } from '@bureau/protocol'
import { ok, type RouteSpec } from '@bureau/runtime'
import type { z } from 'zod'
import type { Page, PageRequest } from '../db/page.ts'
import { type CursorBinding, decodeCursor, encodeCursor } from './cursor.ts'
import { present, type Present } from './present.ts'
import { type Call, jsonRoute, type Route, type Rules } from './route.ts'

const DEFAULT_LIMIT = 20

type ListQuery = z.output<typeof PageQuery>
type FilteredQuery = ListQuery & CursorBinding['filters']

type ListRow<Item, Query extends z.ZodType> = Rules &
  Omit<RouteSpec<Query>, 'method' | 'success' | 'errors'> & {
    /** What the list is of. */
    readonly item: Item
    /** `PageQuery` with the filters of this list. Default: without any. */
    readonly query?: Query
    /** Besides `invalid_cursor`. Default: none. */
    readonly errors?: readonly ErrorCode[]
  }

/** The page that is asked for, and the filters that are given. */
type Asked<Query extends ListQuery> = PageRequest & Present<Omit<Query, keyof ListQuery>>

/**
 * A route that answers one page of a list. The cursor continues this very list only: owner, route, path and filters.
 *
 * @param read Reads the page that is asked for.
 */
export function listRoute<Item extends z.ZodType, Query extends z.ZodType<FilteredQuery> = typeof PageQuery>(
  { item, query = PageQuery as unknown as Query, errors = [], ...row }: ListRow<Item, Query>,
  read: (call: Call<z.output<Query>>, asked: Asked<z.output<Query>>) => Promise<Page<z.output<Item>>>,
): Route {
  const success = { 200: listOf(item) }
  const spec = { ...row, method: 'GET', query, success, errors: [...errors, 'invalid_cursor'] } as const
  return jsonRoute(spec, async (call: Call<z.output<Query>>) => {
    const { serverKey } = call.platform.store
    const { limit = DEFAULT_LIMIT, cursor, ...filters }: FilteredQuery = call.query
    const route = call.request.url.split('?')[0] ?? ''
    const binding: CursorBinding = { ownerId: call.caller.ownerId, route, filters }
    const after = cursor === undefined ? null : decodeCursor(serverKey, binding, cursor)
    const { items, next } = await read(call, { ...present(filters), limit, after } as Asked<z.output<Query>>)
    const nextCursor = next && encodeCursor(serverKey, binding, next)
    return ok({ object: 'list', data: items, hasMore: next !== null, nextCursor })
  })
}
