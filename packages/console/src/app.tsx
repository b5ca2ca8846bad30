import { CSPProvider } from '@base-ui/react/csp-provider'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import {
  createHashHistory,
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
  RouterProvider,
} from '@tanstack/react-router'
import { Sessions, SessionsContext } from './chats/sessions.ts'
import { type PlaySearch, PlaygroundPage } from './playground/playground-page.tsx'
import type { RunsSearch } from './runs/runs-page.tsx'
import { credentials } from './server/credentials.ts'
import { factsQuery, routesQuery } from './server/queries.ts'
import { RequestFailed } from './server/request.ts'
import { PlatformDoor, ServerDoor } from './shell/doors.tsx'
import { Shell } from './shell/shell.tsx'
import { Empty } from './ui/page.tsx'

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // What was refused is refused again.
      retry: (count, error) =>
        count < 2 && !(error instanceof RequestFailed && error.status >= 400 && error.status < 500),
    },
  },
})

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => <Empty icon="search" title="There is no such page." />,
})

const home = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: async () => {
    const { agencies } = await queries.fetchQuery(factsQuery)
    redirect({ to: agencies === 'none' ? '/platform' : '/play', throw: true })
  },
})

const server = createRoute({ getParentRoute: () => root, id: 'server', component: ServerDoor })
const platform = createRoute({ getParentRoute: () => root, path: '/platform', component: PlatformDoor })

/** The first agency, where none is named. Nothing is known of the agencies before somebody has signed in. */
const toFirst = (to: '/play/$agency' | '/graph/$agency') => async (): Promise<void> => {
  const { agencies } = await queries.fetchQuery(factsQuery)
  if (agencies === 'token' && credentials.current.server === undefined) return
  const routes = await queries.fetchQuery(routesQuery).catch(() => undefined)
  const agency = routes?.agencies[0]
  if (agency !== undefined) redirect({ to, params: { agency }, throw: true })
}

const text = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined)

const play = createRoute({
  getParentRoute: () => server,
  path: '/play',
  beforeLoad: toFirst('/play/$agency'),
  component: lazyRouteComponent(() => import('./shell/first-agency.tsx'), 'FirstAgency'),
})
const playAgency = createRoute({
  getParentRoute: () => server,
  path: '/play/$agency',
  validateSearch: ({ chat, panel }: Record<string, unknown>): PlaySearch => {
    const id = text(chat) ?? (typeof chat === 'number' ? String(chat) : undefined)
    return { ...(id !== undefined && { chat: id }), ...((panel === 'events' || panel === 'graph') && { panel }) }
  },
  component: PlaygroundPage,
})
const graph = createRoute({
  getParentRoute: () => server,
  path: '/graph',
  beforeLoad: toFirst('/graph/$agency'),
  component: lazyRouteComponent(() => import('./shell/first-agency.tsx'), 'FirstAgency'),
})
const graphAgency = createRoute({
  getParentRoute: () => server,
  path: '/graph/$agency',
  component: lazyRouteComponent(() => import('./graph/graph-page.tsx'), 'GraphPage'),
})
const runs = createRoute({
  getParentRoute: () => server,
  path: '/runs',
  validateSearch: (search: Record<string, unknown>): RunsSearch => {
    const [agency, status, find] = [text(search['agency']), text(search['status']), text(search['find'])]
    return { ...(agency && { agency }), ...(status && { status }), ...(find && { find }) }
  },
  component: lazyRouteComponent(() => import('./runs/runs-page.tsx'), 'RunsPage'),
})
const run = createRoute({
  getParentRoute: () => server,
  path: '/runs/$run',
  component: lazyRouteComponent(() => import('./runs/run-page.tsx'), 'RunPage'),
})
const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  component: lazyRouteComponent(() => import('./settings/settings-page.tsx'), 'SettingsPage'),
})

const router = createRouter({
  routeTree: root.addChildren([
    home,
    server.addChildren([play, playAgency, graph, graphAgency, runs, run]),
    platform,
    settings,
  ]),
  // Behind the #, so that one page serves all addresses, whatever a proxy puts before it.
  history: createHashHistory(),
  defaultPreload: 'intent',
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}

const sessions = new Sessions()

export function App() {
  return (
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={queries}>
        <SessionsContext value={sessions}>
          <RouterProvider router={router} />
        </SessionsContext>
      </QueryClientProvider>
    </CSPProvider>
  )
}
