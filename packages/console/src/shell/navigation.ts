import { useQuery } from '@tanstack/react-query'
import { useCredentials } from '../server/credentials.ts'
import { factsQuery } from '../server/queries.ts'
import type { IconName } from '../ui/icons.tsx'

type Destination = { readonly to: string; readonly label: string; readonly icon: IconName }

type Section = { readonly label: string | null; readonly items: readonly Destination[] }

const PLAYGROUND: Destination = { to: '/play', label: 'Playground', icon: 'chat' }

const AGENCIES: readonly Destination[] = [
  { to: '/graph', label: 'Graph', icon: 'graph' },
  { to: '/runs', label: 'Runs', icon: 'runs' },
]

export const INBOX: Destination = { to: '/inbox', label: 'Inbox', icon: 'inbox' }

const PLATFORM: Section = {
  label: 'Platform',
  items: [
    { to: '/platform/chats', label: 'Chats', icon: 'chat' },
    { to: '/platform/runs', label: 'Runs', icon: 'runs' },
    { to: '/platform/usage', label: 'Usage', icon: 'chart' },
    { to: '/platform/members', label: 'Members', icon: 'users' },
    { to: '/platform/integrations', label: 'Integrations', icon: 'plug' },
    { to: '/platform/keys', label: 'API keys', icon: 'key' },
    { to: '/platform/tokens', label: 'Consumer tokens', icon: 'key' },
    { to: '/platform/webhooks', label: 'Webhooks', icon: 'webhook' },
    { to: '/platform/files', label: 'Files', icon: 'folder' },
    { to: '/platform/audit', label: 'Audit', icon: 'audit' },
  ],
}

const OWNERS: Destination = { to: '/owners', label: 'Owners', icon: 'users' }

const OTHERS: Section = {
  label: null,
  items: [
    { to: '/guide', label: 'Guide', icon: 'file' },
    { to: '/settings', label: 'Settings', icon: 'settings' },
  ],
}

/** What this server has pages for. */
export function useSections(): readonly Section[] {
  const { data: facts } = useQuery(factsQuery)
  const pages = facts && facts.agencies !== 'none' ? AGENCIES : []
  const { operator } = useCredentials()
  const items = operator === undefined ? PLATFORM.items : [...PLATFORM.items, OWNERS]
  const ofPlatform = facts?.platform ? [{ ...PLATFORM, items }] : []
  return [{ label: null, items: [PLAYGROUND, ...pages, INBOX] }, ...ofPlatform, OTHERS]
}
