import { type Answered, ok } from '@bureau/runtime'
import { type CursorBinding, decodeCursor, encodeCursor } from './cursor.ts'
import type { Page, PageRequest } from '../db/page.ts'
import type { Call } from './route.ts'

const DEFAULT_LIMIT = 20

type ListQuery = { readonly limit?: number | undefined; readonly cursor?: string | undefined }
export type List<Item> = { object: 'list'; data: Item[]; hasMore: boolean; nextCursor: string | null }

/**
 * Answers one page of a list. The cursor continues this very list only: owner, route, path and filters.
 *
 * @param read Reads a page with the limit and position of the request.
 * @throws ServiceError `invalid_cursor`
 */
export async function answerPage<Item>(
  { platform, caller, query, request }: Call<ListQuery>,
  read: (page: PageRequest) => Promise<Page<Item>>,
): Promise<Answered<200, List<Item>>> {
  const { serverKey } = platform.store
  const { limit = DEFAULT_LIMIT, cursor, ...filters } = query
  const route = request.url.split('?')[0] ?? ''
  const binding: CursorBinding = { ownerId: caller.ownerId, route, filters }
  const after = cursor === undefined ? null : decodeCursor(serverKey, binding, cursor)
  const { items, next } = await read({ limit, after })
  return ok({
    object: 'list',
    data: items,
    hasMore: next !== null,
    nextCursor: next && encodeCursor(serverKey, binding, next),
  })
}
