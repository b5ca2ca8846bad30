import { type ReactNode, Suspense } from 'react'
import { lazyPart } from '../server/request.ts'

const VirtualRows = lazyPart(() => import('./virtual-rows.tsx'), 'VirtualRows')

export type Rows<Row> = {
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
  /** What can be found in a row. */
  readonly textOf: (row: Row) => string
  readonly children: (row: Row) => ReactNode
}

/** Shorter lists exist as a whole, so that the search of the browser finds everything in them. */
const LONG_FROM = 100
/** Of a long list, what is shown until it has become virtual. */
const FIRST_SHOWN = 20

/**
 * Rows of any height, in whatever scrolls around them (`data-scroller`). Of a long list only the rows that are seen exist,
 * and it brings a search of its own.
 */
export function LongList<Row extends object>(list: Rows<Row>) {
  const { rows } = list
  if (rows.length < LONG_FROM) return <PlainRows {...list} />
  // React.lazy knows components without type parameters.
  const Virtual = VirtualRows as unknown as (list: Rows<Row>) => ReactNode
  return (
    <Suspense fallback={<PlainRows {...list} rows={rows.slice(-FIRST_SHOWN)} />}>
      <Virtual {...list} />
    </Suspense>
  )
}

function PlainRows<Row>({ rows, keyOf, children }: Rows<Row>) {
  return (
    <div>
      {rows.map((row) => (
        <div key={keyOf(row)}>{children(row)}</div>
      ))}
    </div>
  )
}
