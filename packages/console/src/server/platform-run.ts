import type { PlatformRun } from '@bureau/protocol'
import { queryOptions } from '@tanstack/react-query'
import { ask } from './request.ts'

export const FOLLOW_MS = 2_000

const ACTIVE: ReadonlySet<string> = new Set(['queued', 'running', 'waiting', 'cancelling'])

/** It may still be stopped. */
export const isActive = ({ status }: PlatformRun): boolean => ACTIVE.has(status)

/** A run of the platform; asked for again as long as it lasts. */
export const platformRunQuery = (run: string) =>
  queryOptions({
    queryKey: ['platform', 'run', run],
    queryFn: () => ask<PlatformRun>('platform', `v1/runs/${encodeURIComponent(run)}?include=output`),
    refetchInterval: ({ state }) => (state.data && isActive(state.data) ? FOLLOW_MS : false),
  })
