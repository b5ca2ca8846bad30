import { useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, useRef } from 'react'

export type Column<Row> = {
  readonly name: string
  readonly cell: (row: Row) => ReactNode
  /** Numbers are at the right. */
  readonly right?: boolean
  /** Takes the room that the others leave. Its content is cut off or wraps there, and never makes the table wider. */
  readonly grows?: boolean
  /** Stays on one line, and is cut off where it is longer than a name. */
  readonly short?: boolean
  /** Takes two lines where there is little room. */
  readonly wraps?: boolean
  /** Left out where there is little room: below 768 pixels, or below 1,280. */
  readonly wideOnly?: boolean | 'very'
}

type Props<Row> = {
  /** What the table holds. */
  readonly label: string
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
  readonly columns: readonly Column<Row>[]
  readonly height?: string
}

/** The column of the menus: three dots say enough to those who see. */
const MENU = 'More'

const ROW_HEIGHT = 41
const VIRTUAL_FROM = 60

/** A list of records. Of long ones only the rows that are seen exist. */
export function DataTable<Row>({ label, rows, keyOf, columns, height = '70dvh' }: Props<Row>) {
  const scroller = useRef<HTMLDivElement>(null)
  const isLong = rows.length >= VIRTUAL_FROM
  const virtual = useVirtualizer({
    count: isLong ? rows.length : 0,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 12,
  })
  const items = virtual.getVirtualItems()
  const shown = isLong ? items.map(({ index }) => rows[index]!) : rows
  const before = items[0]?.start ?? 0
  const after = isLong ? virtual.getTotalSize() - (items.at(-1)?.end ?? 0) : 0
  return (
    <div
      ref={scroller}
      tabIndex={0}
      role="region"
      aria-label={label}
      className="card overflow-auto"
      style={{ maxHeight: height }}
    >
      <table className="w-full text-[13px]" aria-rowcount={rows.length + 1}>
        <thead className="sticky top-0 z-10 bg-panel">
          <tr className="text-left text-xs text-soft">
            {columns.map((column) => (
              <th
                key={column.name}
                scope="col"
                className={`border-b border-line px-3 py-2 font-medium ${cellClass(column)}`}
              >
                {column.name === MENU ? <span className="sr-only">{MENU}</span> : column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {before > 0 && <tr style={{ height: before }} />}
          {shown.map((row) => (
            <tr key={keyOf(row)} className="border-b border-line last:border-0 hover:bg-hover">
              {columns.map((column) => (
                <td key={column.name} className={`h-[41px] px-3 py-1.5 ${cellClass(column)}`}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {after > 0 && <tr style={{ height: after }} />}
        </tbody>
      </table>
    </div>
  )
}

function cellClass({ right, grows, short, wraps, wideOnly = false }: Omit<Column<unknown>, 'name' | 'cell'>): string {
  const room = { false: '', true: 'hidden md:table-cell', very: 'hidden xl:table-cell' }[`${wideOnly}`]
  return [
    right ? 'text-right tabular-nums' : '',
    wraps ? 'md:whitespace-nowrap' : right ? 'whitespace-nowrap' : '',
    grows ? 'w-full max-w-0 min-w-24' : '',
    short ? 'max-w-40 truncate' : '',
    room,
  ].join(' ')
}
