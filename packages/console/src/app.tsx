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
import type { ComponentType } from 'react'
import { textsOf } from './address-search.ts'
import { Sessions, SessionsContext } from './chats/sessions.ts'
import { readPlace } from './playground/place.ts'
import { readSearch } from './platform/search.ts'
import { credentials } from './server/credentials.ts'
import { factsQuery, routesQuery } from './server/queries.ts'
import { whenReached } from './server/reachability.ts'
import { isForbidden, RequestFailed } from './server/request.ts'
import { BrokenPage } from './shell/broken-page.tsx'
import { FirstDoor, GuideDoor, PlatformDoor, PlayDoor, ServerDoor } from './shell/doors.tsx'
import { FirstPartner } from './shell/first-partner.tsx'
import { Shell } from './shell/shell.tsx'
import { NoSuchPage } from './shell/no-such-page.tsx'

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // The server may be on this very machine, whatever the browser knows of the network.
      networkMode: 'always',
      // What was refused is refused again, also when one comes back to a page or to its window.
      retry: (count, error) =>
        count < 2 && !(error instanceof RequestFailed && error.status >= 400 && error.status < 500),
      retryOnMount: (query) => !isForbidden(query),
      refetchOnWindowFocus: (query) => !isForbidden(query),
    },
    mutations: { networkMode: 'always' },
  },
})

/** A page whose code is read when somebody goes there. */
const lazyPage = (load: () => Promise<Record<string, unknown>>, name: string) =>
  lazyRouteComponent(() => whenReached(load) as Promise<Record<string, ComponentType>>, name)

const root = createRootRoute({
  component: Shell,
  notFoundComponent: NoSuchPage,
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
const guide = createRoute({ getParentRoute: () => root, path: '/guide', component: GuideDoor })

/** The first agency, where none is named. Nothing is known of the agencies before somebody has signed in. */
const toFirst = (to: '/play/$agency' | '/graph/$agency') => async (): Promise<void> => {
  const { agencies } = await queries.fetchQuery(factsQuery)
  if (agencies === 'none' || (agencies === 'token' && credentials.value.server === undefined)) return
  const routes = await queries.fetchQuery(routesQuery).catch(() => undefined)
  const agency = routes?.agencies[0]
  if (agency !== undefined) redirect({ to, params: { agency }, throw: true })
}

const play = createRoute({
  getParentRoute: () => root,
  path: '/play',
  beforeLoad: toFirst('/play/$agency'),
  component: FirstDoor,
})
const playAgency = createRoute({
  getParentRoute: () => root,
  path: '/play/$agency',
  validateSearch: readPlace,
  component: PlayDoor,
})
const graph = createRoute({
  getParentRoute: () => server,
  path: '/graph',
  beforeLoad: toFirst('/graph/$agency'),
  component: FirstPartner,
})
const graphAgency = createRoute({
  getParentRoute: () => server,
  path: '/graph/$agency',
  component: lazyPage(() => import('./graph/graph-page.tsx'), 'GraphPage'),
})
const runs = createRoute({
  getParentRoute: () => server,
  path: '/runs',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, ['agency', 'status', 'find']),
  component: lazyPage(() => import('./runs/runs-page.tsx'), 'RunsPage'),
})
const run = createRoute({
  getParentRoute: () => server,
  path: '/runs/$run',
  component: lazyPage(() => import('./runs/run-page.tsx'), 'RunPage'),
})
const compare = createRoute({
  getParentRoute: () => server,
  path: '/runs/$run/compare/$other',
  component: lazyPage(() => import('./runs/compare-page.tsx'), 'ComparePage'),
})

/** A page of the platform; what it is about is in its search. */
const platformPage = <const Path extends string>(
  path: Path,
  load: () => Promise<Record<string, ComponentType>>,
  name: string,
) =>
  createRoute({
    getParentRoute: () => platform,
    path,
    validateSearch: readSearch,
    component: lazyPage(load, name),
  })

const platformHome = createRoute({
  getParentRoute: () => platform,
  path: '/',
  beforeLoad: () => void redirect({ to: '/platform/chats', throw: true }),
})
const platformPages = [
  platformHome,
  platformPage('/chats', () => import('./platform/chats-page.tsx'), 'ChatsPage'),
  platformPage('/chats/$chat', () => import('./platform/chat-page.tsx'), 'ChatPage'),
  platformPage('/runs', () => import('./platform/runs-page.tsx'), 'PlatformRunsPage'),
  platformPage('/runs/$run', () => import('./platform/run-page.tsx'), 'PlatformRunPage'),
  platformPage('/usage', () => import('./platform/usage-page.tsx'), 'UsagePage'),
  platformPage('/members', () => import('./platform/members-page.tsx'), 'MembersPage'),
  platformPage('/members/$integration/$consumer', () => import('./platform/member-page.tsx'), 'MemberPage'),
  platformPage('/integrations', () => import('./platform/integrations-page.tsx'), 'IntegrationsPage'),
  platformPage('/keys', () => import('./platform/keys-page.tsx'), 'KeysPage'),
  platformPage('/tokens', () => import('./platform/tokens-page.tsx'), 'TokensPage'),
  platformPage('/webhooks', () => import('./platform/webhooks-page.tsx'), 'WebhooksPage'),
  platformPage('/files', () => import('./platform/files-page.tsx'), 'FilesPage'),
  platformPage('/audit', () => import('./platform/audit-page.tsx'), 'AuditPage'),
] as const
const owners = createRoute({
  getParentRoute: () => root,
  path: '/owners',
  component: lazyPage(() => import('./platform/owners-page.tsx'), 'OwnersPage'),
})
const inbox = createRoute({
  getParentRoute: () => root,
  path: '/inbox',
  component: lazyPage(() => import('./inbox/inbox-page.tsx'), 'InboxPage'),
})
const guideHome = createRoute({
  getParentRoute: () => guide,
  path: '/',
  component: lazyPage(() => import('./guide/guide-page.tsx'), 'GuideHome'),
})
const guidePage = createRoute({
  getParentRoute: () => guide,
  path: '/$',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, ['at']),
  component: lazyPage(() => import('./guide/guide-page.tsx'), 'GuidePage'),
})
const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  component: lazyPage(() => import('./settings/settings-page.tsx'), 'SettingsPage'),
})

const router = createRouter({
  routeTree: root.addChildren([
    home,
    play,
    playAgency,
    server.addChildren([graph, graphAgency, runs, run, compare]),
    platform.addChildren(platformPages),
    owners,
    inbox,
    guide.addChildren([guideHome, guidePage]),
    settings,
  ]),
  // Behind the #, so that one page serves all addresses, whatever a proxy puts before it.
  history: createHashHistory(),
  defaultPreload: 'intent',
  defaultErrorComponent: BrokenPage,
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
