import { type KeyboardEvent, type RefObject, useDeferredValue, useEffect, useMemo, useState } from 'react'
import { IconButton } from './button.tsx'

type Props<Row> = {
  readonly rows: readonly Row[]
  readonly textOf: (row: Row) => string
  readonly list: RefObject<HTMLElement | null>
  /** Scrolls to a row. */
  readonly goTo: (index: number) => void
}

/** Searches all rows of a list of which the browser knows only those that are seen. Ctrl+F opens it. */
export function FindBar<Row extends object>(props: Props<Row>) {
  const [open, setOpen] = useState(false)
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent): void => {
      // Who presses it twice wants the search of the browser.
      if (open || event.key.toLowerCase() !== 'f' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      setOpen(true)
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [open])
  return (
    <div className="pointer-events-none sticky top-2 z-10 flex h-0 justify-end">
      <div className="card pointer-events-auto flex h-10 items-center gap-1 px-1 shadow-lg">
        {open ? (
          <Search {...props} close={() => setOpen(false)} />
        ) : (
          <IconButton icon="search" label="Find in this conversation" onClick={() => setOpen(true)} />
        )}
      </div>
    </div>
  )
}

function Search<Row extends object>({ rows, textOf, list, goTo, close }: Props<Row> & { readonly close: () => void }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const wanted = useDeferredValue(text.trim().toLowerCase())
  const texts = useMemo(() => new WeakMap<Row, string>(), [])
  const found = useMemo(() => {
    const lowered = (row: Row): string => {
      const known = texts.get(row) ?? textOf(row).toLowerCase()
      texts.set(row, known)
      return known
    }
    return wanted === '' ? [] : rows.flatMap((row, index) => (lowered(row).includes(wanted) ? [index] : []))
  }, [rows, texts, textOf, wanted])
  useMarks(list, wanted)
  const go = (next: number): void => {
    if (found.length === 0) return
    const index = (next + found.length) % found.length
    setAt(index)
    goTo(found[index]!)
  }
  // Whoever types sees the first place at once; a row more at the end moves nobody.
  useEffect(() => {
    setAt(0)
    if (found.length > 0) goTo(found[0]!)
  }, [wanted])
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') close()
    if (event.key !== 'Enter') return
    event.preventDefault()
    go(event.shiftKey ? at - 1 : at + 1)
  }
  return (
    <div role="search" className="flex items-center gap-1" onKeyDown={onKeyDown}>
      <input
        aria-label="Find in this conversation"
        autoFocus
        className="input w-44!"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <span role="status" className="min-w-16 text-center text-xs text-soft tabular-nums">
        {wanted !== '' &&
          (found.length === 0 ? 'not found' : `${Math.min(at, found.length - 1) + 1} of ${found.length}`)}
      </span>
      <IconButton icon="chevron" label="Previous" className="[&_svg]:-rotate-90" onClick={() => go(at - 1)} />
      <IconButton icon="chevron" label="Next" className="[&_svg]:rotate-90" onClick={() => go(at + 1)} />
      <IconButton icon="close" label="Close the search" onClick={close} />
    </div>
  )
}

/** Marks what is found in the rows that exist, after every change of them: no element is added for it. */
function useMarks(list: RefObject<HTMLElement | null>, wanted: string): void {
  useEffect(() => {
    const { current } = list
    if (!current || wanted === '' || !('highlights' in CSS)) return undefined
    const mark = (): void => void CSS.highlights.set('found', new Highlight(...rangesOf(current, wanted)))
    mark()
    const watch = new MutationObserver(mark)
    watch.observe(current, { childList: true, subtree: true, characterData: true })
    return () => {
      watch.disconnect()
      CSS.highlights.delete('found')
    }
  }, [list, wanted])
}

function rangesOf(list: HTMLElement, wanted: string): Range[] {
  const ranges: Range[] = []
  const nodes = document.createTreeWalker(list, NodeFilter.SHOW_TEXT)
  while (nodes.nextNode()) {
    const node = nodes.currentNode
    const text = (node.nodeValue ?? '').toLowerCase()
    for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + wanted.length)) {
      const range = new Range()
      range.setStart(node, at)
      range.setEnd(node, at + wanted.length)
      ranges.push(range)
    }
  }
  return ranges
}
