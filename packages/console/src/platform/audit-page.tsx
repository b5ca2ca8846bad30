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
  { name: 'Of', cell: ({ target }) => <ShortId id={target} />, wideOnly: true },
  {
    name: 'Details',
    cell: ({ details }) => <code className="text-xs text-soft [overflow-wrap:anywhere]">{detailsOf(details)}</code>,
    grows: true,
    wideOnly: true,
  },
  { name: 'By', cell: ({ actor }) => <ShortId id={actor} />, wideOnly: true },
  {
    name: 'At',
    cell: ({ createdAt }) => <span className="text-soft">{moment(createdAt)}</span>,
    right: true,
    wraps: true,
  },
]

/** What an id is of, and its end, which tells it from others. */
const ShortId = ({ id }: { readonly id: string }) => (
  <code className="text-xs whitespace-nowrap" title={id}>
    {id.length > 24 ? `${id.slice(0, 4)}…${id.slice(-6)}` : id}
  </code>
)

const detailsOf = (details: AuditEntry['details']): string =>
  Object.entries(details)
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
    .join(', ')
