import { useInfiniteQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import type { Door } from '../server/credentials.ts'
import { ask, isForbidden, isRefusal, queryOf } from '../server/request.ts'
import { Button } from '../ui/button.tsx'
import { type Column, DataTable } from '../ui/data-table.tsx'
import { Failure, Loading } from '../ui/page.tsx'

type PageOf<Item> = { readonly data: readonly Item[]; readonly nextCursor: string | null }

type Query = Readonly<Record<string, string | undefined>>

const PAGE_SIZE = 100
const REFRESH_MS = 10_000

type Props<Item> = {
  readonly label: string
  /** Of a list of the platform, e.g. `v1/runs`. */
  readonly path: string
  /** As whom it is read. */
  readonly door?: Door
  readonly query?: Query
  readonly columns: readonly Column<Item>[]
  readonly keyOf: (item: Item) => string
  /** What stands there when the list is empty. */
  readonly empty: ReactNode
}

type Pages = { readonly error: unknown; readonly data?: { readonly pages: readonly unknown[] } | undefined }

/** All pages are read again, one after the other: whoever has loaded many looks at the past. */
const isReadOnce = (query: { readonly state: Pages }): boolean =>
  isForbidden(query) || (query.state.data?.pages.length ?? 0) > 1

/** A list of the platform, page by page. As long as it has one page, that is read again every ten seconds. */
export function PagedTable<Item>({ path, door = 'platform', query = {}, empty, ...table }: Props<Item>) {
  const pages = useInfiniteQuery({
    queryKey: ['platform', path, query],
    queryFn: ({ pageParam }) =>
      ask<PageOf<Item>>(door, path + queryOf({ ...query, limit: PAGE_SIZE, cursor: pageParam })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    refetchInterval: (read) => !isReadOnce(read) && REFRESH_MS,
    refetchOnWindowFocus: (read) => !isReadOnce(read),
  })
  const failure = pages.error && <Failure error={pages.error} retry={() => void pages.refetch()} />
  // After another sign-in it may be a list of before.
  if (!pages.data || isRefusal(pages.error, 403)) return failure ?? <Loading />
  const rows = pages.data.pages.flatMap(({ data }) => data)
  return (
    <div className="flex flex-col gap-3">
      {failure}
      {rows.length === 0 ? empty : <DataTable {...table} rows={rows} />}
      {pages.hasNextPage && (
        <Button className="self-center" disabled={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
          Load more
        </Button>
      )}
    </div>
  )
}
