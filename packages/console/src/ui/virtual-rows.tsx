import { defaultRangeExtractor, type Range, useVirtualizer } from '@tanstack/react-virtual'
import { type RefObject, useCallback, useLayoutEffect, useRef, useState } from 'react'
import { FindBar } from './find-bar.tsx'
import type { Rows } from './long-list.tsx'

/** Pixels, of rows that nobody has seen yet. */
const ESTIMATED_HEIGHT = 90

/** Only the rows that are seen exist. */
export function VirtualRows<Row extends object>({ rows, keyOf, textOf, children }: Rows<Row>) {
  const list = useRef<HTMLDivElement>(null)
  const scrollMargin = useMargin(list)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scrollerOf(list.current),
    estimateSize: () => ESTIMATED_HEIGHT,
    getItemKey: useCallback((at: number) => keyOf(rows[at]!), [rows, keyOf]),
    rangeExtractor: useCallback((range: Range) => withFocused(range, list.current), []),
    overscan: 6,
    scrollMargin,
  })
  return (
    <div ref={list} className="relative" style={{ height: virtual.getTotalSize() }}>
      {virtual.getVirtualItems().map(({ key, index, start }) => (
        <div
          key={String(key)}
          ref={virtual.measureElement}
          data-index={index}
          className="absolute inset-x-0"
          style={{ top: start - scrollMargin }}
        >
          {children(rows[index]!)}
        </div>
      ))}
      <FindBar
        rows={rows}
        textOf={textOf}
        list={list}
        goTo={(index) => virtual.scrollToIndex(index, { align: 'center' })}
      />
    </div>
  )
}

const scrollerOf = (list: HTMLElement | null): HTMLElement | null =>
  list?.closest<HTMLElement>('[data-scroller]') ?? null

/** How far below the beginning of what scrolls the list begins. */
function useMargin(list: RefObject<HTMLElement | null>): number {
  const [margin, setMargin] = useState(0)
  useLayoutEffect(() => {
    const scroller = scrollerOf(list.current)
    if (!scroller) return
    const top = list.current!.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop
    setMargin((before) => (Math.abs(before - top) > 1 ? Math.round(top) : before))
  })
  return margin
}

/** The row in which somebody writes or stands stays, however far it is scrolled away. */
function withFocused(range: Range, list: HTMLElement | null): number[] {
  const indexes = defaultRangeExtractor(range)
  const row = list?.contains(document.activeElement) && document.activeElement?.closest<HTMLElement>('[data-index]')
  const focused = row ? Number(row.dataset['index']) : undefined
  if (focused === undefined || focused >= range.count || indexes.includes(focused)) return indexes
  return [...indexes, focused].toSorted((a, b) => a - b)
}
