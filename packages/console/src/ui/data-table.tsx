import { useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, type RefObject, useLayoutEffect, useRef, useState } from 'react'
import { moment } from './format.ts'

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
  /** Where the table has little room it is no column, but a line of its row: below 760 pixels, or below 1,000. */
  readonly wideOnly?: boolean | 'very'
}

type Props<Row> = {
  /** What the table holds. */
  readonly label: string
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
  readonly columns: readonly Column<Row>[]
}

/** When something happened. `never`: what there is in place of a time that is not known. */
export const timeColumn = <Row,>(name: string, of: (row: Row) => string | null, never = ''): Column<Row> => ({
  name,
  cell: (row) => {
    const at = of(row)
    return at === null ? never : <span className="text-soft">{moment(at)}</span>
  },
  right: true,
  wideOnly: true,
})

/** The column of the menus: three dots say enough to those who see. */
const MENU = 'More'

/** As high as a window below the title of its page, but never too low to read; in a dialog half of a window. */
const HEIGHT = 'max-h-[max(24rem,100dvh-11rem)] in-[[role=dialog]]:max-h-[50dvh]'

const ROW_HEIGHT = 41
const VIRTUAL_FROM = 60

/** A list of records. Of long ones only the rows that are seen exist. */
export function DataTable<Row>({ label, rows, keyOf, columns }: Props<Row>) {
  const scroller = useRef<HTMLDivElement>(null)
  const width = useWidth(scroller)
  const { true: shown = [], false: folded = [] } = Object.groupBy(columns, (column) => `${hasRoom(column, width)}`)
  const main = shown.find(({ grows }) => grows) ?? shown[0]
  const isLong = rows.length >= VIRTUAL_FROM
  const virtual = useVirtualizer({
    count: isLong ? rows.length : 0,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 12,
  })
  const items = virtual.getVirtualItems()
  const indexes = isLong ? items.map(({ index }) => index) : [...rows.keys()]
  const before = items[0]?.start ?? 0
  const after = isLong ? virtual.getTotalSize() - (items.at(-1)?.end ?? 0) : 0
  return (
    <div ref={scroller} tabIndex={0} role="region" aria-label={label} className={`card overflow-auto ${HEIGHT}`}>
      <table className="w-full text-[13px]" aria-rowcount={rows.length + 1}>
        <Head columns={shown} />
        <tbody>
          {before > 0 && <tr aria-hidden style={{ height: before }} />}
          {indexes.map((index) => (
            <tr
              key={keyOf(rows[index]!)}
              ref={isLong ? virtual.measureElement : undefined}
              data-index={index}
              aria-rowindex={index + 2}
              className="border-b border-line last:border-0 hover:bg-hover"
            >
              {shown.map((column) => (
                <td key={column.name} className={`h-[41px] px-3 py-1.5 ${cellClass(column)}`}>
                  {column.cell(rows[index]!)}
                  {column === main && <Folded row={rows[index]!} columns={folded} />}
                </td>
              ))}
            </tr>
          ))}
          {after > 0 && <tr aria-hidden style={{ height: after }} />}
        </tbody>
      </table>
    </div>
  )
}

function Head({ columns }: { readonly columns: readonly Column<never>[] }) {
  return (
    <thead className="sticky top-0 z-10 bg-panel">
      <tr aria-rowindex={1} className="text-left text-xs text-soft">
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
  )
}

function hasRoom({ wideOnly = false }: Column<never>, width: number): boolean {
  return width >= (wideOnly === 'very' ? 1_000 : wideOnly ? 760 : 0)
}

/** How wide an element is, in pixels. */
function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0)
  useLayoutEffect(() => {
    const measure = (): void => setWidth(element.current?.clientWidth ?? 0)
    measure()
    const watch = new ResizeObserver(measure)
    watch.observe(element.current!)
    return () => watch.disconnect()
  }, [element])
  return width
}

type FoldedProps<Row> = { readonly row: Row; readonly columns: readonly Column<Row>[] }

/** What a row has in columns for which there is no room. */
function Folded<Row>({ row, columns }: FoldedProps<Row>) {
  const facts = columns.map(({ name, cell }) => ({ name, content: cell(row) })).filter(({ content }) => content !== '')
  if (facts.length === 0) return null
  return (
    <dl className="mt-0.5 flex flex-wrap gap-x-3 gap-y-0.5 text-left text-xs wrap-anywhere whitespace-normal text-soft">
      {facts.map(({ name, content }) => (
        <div key={name} className="flex max-w-full flex-wrap gap-x-1 has-[>dd>:empty]:hidden">
          <dt>{name}</dt>
          <dd className="min-w-0 text-ink">{content}</dd>
        </div>
      ))}
    </dl>
  )
}

function cellClass({ right, grows, short, wraps }: Omit<Column<never>, 'name' | 'cell'>): string {
  return [
    right ? 'text-right tabular-nums' : '',
    wraps ? 'md:whitespace-nowrap' : right ? 'whitespace-nowrap' : '',
    grows ? 'w-full max-w-0 min-w-24' : '',
    short ? 'max-w-40 truncate' : '',
  ].join(' ')
}
