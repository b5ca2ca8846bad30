import type { PlatformRun, RunApproval } from '@bureau/protocol'
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { useCredentials } from './credentials.ts'
import { factsQuery } from './queries.ts'
import { ask, isForbidden } from './request.ts'

/** What a person says to a call that waits. */
export type CallDecision = {
  readonly approve: boolean
  readonly reason?: string
  /** Other arguments, as JSON text. */
  readonly edited?: string
}

/** Decides on a call that waits. Rejects when that is not possible any more, e.g. because somebody else has decided. */
export type Decide = (callId: string, decision: CallDecision) => Promise<void>

const REFRESH_MS = 10_000
const MAX_RUNS = 50

type WaitingRuns = {
  readonly runs: readonly PlatformRun[]
  /** There are more than these. */
  readonly isCut: boolean
}

/** The latest runs of the platform that wait for a person, over all chats of the owner. */
export const waitingRunsQuery = queryOptions({
  queryKey: ['platform', 'waiting'],
  queryFn: async (): Promise<WaitingRuns> => {
    const page = await ask<{ data: PlatformRun[]; nextCursor: string | null }>(
      'platform',
      `v1/runs?status=waiting&limit=${MAX_RUNS}`,
    )
    return { runs: page.data, isCut: page.nextCursor !== null }
  },
  refetchInterval: (query) => !isForbidden(query) && REFRESH_MS,
})

/** They are asked for by whoever is signed in to the platform. */
export function useWaitingRuns() {
  const { data: facts } = useQuery(factsQuery)
  const { platform } = useCredentials()
  return useQuery({ ...waitingRunsQuery, enabled: facts?.platform === true && platform !== undefined })
}

/** The calls of a run on which a person decides, and what was decided. */
export const approvalsQuery = (run: string) =>
  queryOptions({
    queryKey: ['platform', 'run', run, 'approvals'],
    queryFn: async () => (await ask<{ approvals: RunApproval[] }>('platform', pathOf(run))).approvals,
  })

const pathOf = (run: string): string => `v1/runs/${encodeURIComponent(run)}/approvals`

/** Decides on calls of a run of the platform. Whatever came of it, all that is shown is read again. */
export function useDecide(run: string): Decide {
  const queries = useQueryClient()
  return async (callId, { approve, reason, edited }) => {
    const decision = { callId, approve, ...(reason && { reason }), ...(edited && { arguments: edited }) }
    try {
      await ask('platform', pathOf(run), { method: 'POST', body: [decision] })
    } finally {
      await queries.invalidateQueries({ queryKey: ['platform'] })
    }
  }
}
