import type { PlatformChat } from '@bureau/protocol'
import { Link } from '@tanstack/react-router'
import { Badge, Status } from '../ui/badge.tsx'
import { type Column, timeColumn } from '../ui/data-table.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { IntegrationName, IntegrationSelect } from '../parts/integrations.tsx'
import { ConsumerFilter } from './integration-page.tsx'
import { PagedTable } from './paged-table.tsx'
import { usePlatformSearch } from './search.ts'

/** The chats of all users, latest activity first. */
export function ChatsPage() {
  const [{ integration, consumer }, set] = usePlatformSearch()
  return (
    <Page
      title="Chats"
      about="The conversations of your users, as they saw them."
      actions={
        <>
          <ConsumerFilter />
          <IntegrationSelect value={integration} onPick={(id) => set({ integration: id })} all="All integrations" />
        </>
      }
    >
      <PagedTable
        label="Chats"
        path="v1/chats"
        query={{ apiIntegrationId: integration, consumerId: consumer }}
        columns={COLUMNS}
        keyOf={(chat) => chat.chatId}
        empty={
          consumer ? (
            <Empty icon="inbox" title="No such chats" />
          ) : (
            <Empty icon="inbox" title="No chats yet">
              A chat begins with the first completion that is sent to an integration.
            </Empty>
          )
        }
      />
    </Page>
  )
}

const COLUMNS: readonly Column<PlatformChat>[] = [
  {
    name: 'Chat',
    grows: true,
    cell: ({ chatId, title, firstMessage, aliasChatId }) => (
      <Link
        to="/platform/chats/$chat"
        params={{ chat: chatId }}
        className="block truncate font-medium underline-offset-2 hover:underline"
      >
        {title ?? aliasChatId ?? (firstMessage || chatId)}
      </Link>
    ),
  },
  { name: 'Integration', cell: ({ apiIntegrationId: id }) => <IntegrationName id={id} />, short: true, wideOnly: true },
  { name: 'Consumer', cell: ({ createdByConsumerId: id }) => id ?? '', short: true, wideOnly: true },
  { name: 'Messages', cell: ({ messageCount }) => messageCount, right: true, wideOnly: true },
  {
    name: 'Latest run',
    cell: ({ chatState, lastRunStatus }) =>
      chatState === 'busy' && lastRunStatus !== 'waiting' ? (
        <Badge tone="live">busy</Badge>
      ) : (
        lastRunStatus && <Status of={lastRunStatus} />
      ),
  },
  timeColumn('Updated', ({ updatedAt }) => updatedAt),
]
