import type { RecentRun, RecentRunDetail } from '@bureau/protocol'
import { queryOptions } from '@tanstack/react-query'
import { ask, queryOf } from '../server/request.ts'

const FOLLOW_MS = 1_500

/** The latest runs of the server's process, newest first. */
export const recentRunsQuery = (filter: {
  readonly agency?: string | undefined
  readonly status?: string | undefined
}) =>
  queryOptions({
    queryKey: ['recent-runs', filter],
    queryFn: async () => (await ask<{ runs: RecentRun[] }>('server', `console/runs${queryOf(filter)}`)).runs,
    refetchInterval: FOLLOW_MS,
  })

/** One of them; asked for again as long as it lasts. */
export const recentRunQuery = (run: string) =>
  queryOptions({
    queryKey: ['recent-run', run],
    queryFn: () => ask<RecentRunDetail>('server', `console/runs/${encodeURIComponent(run)}`),
    refetchInterval: ({ state }) => (state.data?.status === 'running' ? FOLLOW_MS / 2 : false),
    retry: false,
  })
