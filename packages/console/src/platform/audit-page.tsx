import type { AuditEntry } from '@bureau/protocol'
import type { Column } from '../ui/data-table.tsx'
import { moment } from '../ui/format.ts'
import { Empty, Page } from '../ui/page.tsx'
import { PagedTable } from './paged-table.tsx'

/** Who changed what. */
export function AuditPage() {
  return (
    <Page
      title="Audit"
      about="Every change of what belongs to the owner, with the API key that made it. Content is never recorded."
    >
      <PagedTable
        label="Audit"
        path="v1/audit"
        columns={COLUMNS}
        keyOf={({ id }) => id}
        empty={<Empty icon="audit" title="Nothing was changed yet" />}
      />
    </Page>
  )
}

const COLUMNS: readonly Column<AuditEntry>[] = [
  { name: 'Change', cell: ({ action }) => <span className="font-medium">{action}</span> },
  { name: 'Of', cell: ({ target }) => <code className="block max-w-36 truncate text-xs sm:max-w-none">{target}</code> },
  {
    name: 'Details',
    cell: ({ details }) => <code className="text-xs text-soft">{detailsOf(details)}</code>,
    wideOnly: true,
  },
  { name: 'By', cell: ({ actor }) => <code className="text-xs">{actor}</code>, wideOnly: true },
  {
    name: 'At',
    cell: ({ createdAt }) => <span className="whitespace-nowrap text-soft">{moment(createdAt)}</span>,
    right: true,
  },
]

const detailsOf = (details: AuditEntry['details']): string =>
  Object.entries(details)
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
    .join(', ')
