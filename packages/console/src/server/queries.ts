import type { AgencyMetadata } from '@bureau/protocol'
import { type Query, type QueryClient, queryOptions, useQuery } from '@tanstack/react-query'
import { useCredentials } from './credentials.ts'
import { ask } from './request.ts'

/** What the server says of itself before anybody signs in. */
export type ServerFacts = {
  readonly version: string
  readonly agencies: 'none' | 'open' | 'token'
  readonly platform: boolean
}

export const factsQuery = queryOptions({
  queryKey: ['facts'],
  queryFn: () => ask<ServerFacts>('server', 'console/server.json'),
  staleTime: Infinity,
})

/** The routes of a self-hosted server that the console looks for. */
export type Routes = {
  /** By their names in the routes. */
  readonly agencies: readonly string[]
  readonly hasRuns: boolean
  /** Agencies whose streams speak AG-UI, which the console does not. */
  readonly onlyAgui: ReadonlySet<string>
  readonly paths: readonly string[]
}

export const routesQuery = queryOptions({
  queryKey: ['routes'],
  queryFn: async (): Promise<Routes> => {
    const { paths } = await ask<{ paths: Record<string, unknown> }>('server', 'openapi.json')
    const names = Object.keys(paths)
    const agencies = names.flatMap((path) => /^\/([^/]+)\/get_metadata$/.exec(path)?.[1] ?? [])
    return {
      agencies,
      hasRuns: names.includes('/console/runs'),
      onlyAgui: new Set(agencies.filter((name) => !names.includes(`/${name}/cancel_response_stream`))),
      paths: names,
    }
  },
  staleTime: 60_000,
})

export const metadataQuery = (agency: string) =>
  queryOptions({
    queryKey: ['metadata', agency],
    queryFn: () => ask<AgencyMetadata>('server', `${encodeURIComponent(agency)}/get_metadata`),
    staleTime: 60_000,
  })

export type AgentNode = Extract<AgencyMetadata['nodes'][number], { type: 'agent' }>

export function agentsOf(metadata: AgencyMetadata | undefined): readonly AgentNode[] {
  return metadata?.nodes.filter((node): node is AgentNode => node.type === 'agent') ?? []
}

/** Whether a self-hosted server is here, and whether it lets us in; `unread`: that is not known yet, or cannot be. */
type Access = 'unread' | 'none' | 'locked' | 'open'

export function useServerAccess(): Access {
  const { data: facts } = useQuery(factsQuery)
  const { server } = useCredentials()
  const isOpen = facts?.agencies === 'open' || (facts?.agencies === 'token' && server !== undefined)
  const routes = useQuery({ ...routesQuery, enabled: isOpen })
  if (!facts) return 'unread'
  if (facts.agencies === 'none') return 'none'
  if (!isOpen) return 'locked'
  // What was read before stays: a page with something written in it must not go away.
  return routes.data ? 'open' : 'unread'
}

/** The routes of the self-hosted server, where there is one that lets us in. */
export const useServerRoutes = () => useQuery({ ...routesQuery, enabled: useServerAccess() === 'open' })

const needsSignIn = ({ queryKey }: Query): boolean => queryKey[0] !== 'facts'

/** Everything was read with the credentials of before. */
export function forgetEverything(queries: QueryClient): void {
  void queries.resetQueries({ predicate: needsSignIn })
}

/** The same as long as a page waits on which somebody has typed something: what it shows stays until it has been read again. */
export function readEverythingAgain(queries: QueryClient): void {
  void queries.resetQueries({ predicate: (query) => needsSignIn(query) && query.state.data === undefined })
  void queries.invalidateQueries({ predicate: needsSignIn })
}
