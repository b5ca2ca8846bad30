import type { PlatformRun } from '@bureau/protocol'
import { queryOptions } from '@tanstack/react-query'
import { waitingRunsQuery } from './approvals.ts'
import { ask } from './request.ts'

export const FOLLOW_MS = 2_000

const ACTIVE: ReadonlySet<string> = new Set(['queued', 'running', 'waiting', 'cancelling'])

/** It may still be stopped. */
export const isActive = ({ status }: PlatformRun): boolean => ACTIVE.has(status)

/** A run of the platform; asked for again as long as it lasts. What waits is then known to have changed, before that is asked again. */
export const platformRunQuery = (run: string) =>
  queryOptions({
    queryKey: ['platform', 'run', run],
    queryFn: async ({ client }) => {
      const read = await ask<PlatformRun>('platform', `v1/runs/${encodeURIComponent(run)}?include=output`)
      const { runs, isCut } = client.getQueryData(waitingRunsQuery.queryKey) ?? { runs: [], isCut: true }
      const isListed = runs.some(({ runId }) => runId === run)
      if (!isCut && isListed !== (read.status === 'waiting'))
        void client.invalidateQueries({ queryKey: waitingRunsQuery.queryKey })
      return read
    },
    refetchInterval: ({ state }) => (state.data && isActive(state.data) ? FOLLOW_MS : false),
  })
