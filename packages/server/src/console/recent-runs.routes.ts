import { RecentRunDetail, RecentRunList, RecentRunsQuery, ServiceError } from '@bureau/protocol'
import { ok, param } from '@bureau/runtime'
import { jsonRoute, named, type ServerRoute } from '../http/route.ts'
import type { RecentRuns } from './recent-runs.ts'

/** What the latest runs of this process have done, for whoever has the server token. */
export function recentRunsRoutes(recent: RecentRuns): ServerRoute[] {
  return [
    jsonRoute(
      {
        ...named('list_recent_runs'),
        method: 'GET',
        url: '/console/runs',
        tag: 'operation',
        query: RecentRunsQuery,
        success: { 200: RecentRunList },
        errors: [],
      },
      async ({ query }) => ok({ runs: recent.list(query) }, NO_STORE),
    ),
    jsonRoute(
      {
        ...named('get_recent_run'),
        method: 'GET',
        url: '/console/runs/:run_id',
        tag: 'operation',
        success: { 200: RecentRunDetail },
        errors: ['run_not_found'],
      },
      async (call) => {
        const run = recent.find(param(call, 'run_id'))
        if (!run) throw new ServiceError('run_not_found', { message: 'This process keeps no run of that id.' })
        return ok(run, NO_STORE)
      },
    ),
  ]
}

const NO_STORE = { 'cache-control': 'no-store' }
