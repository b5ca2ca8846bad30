import { useState } from 'react'
import { IconButton } from './button.tsx'
import { brief, pretty } from './format.ts'
import { Icon } from './icons.tsx'
import { copy } from './toasts.tsx'

const MAX_TEXT = 600
const MAX_MEMBERS = 100

/** A value as a tree that opens and closes; text that is not JSON as it is. */
export function JsonView({ value, open = 2 }: { readonly value: unknown; readonly open?: number }) {
  return (
    <div className="font-mono text-xs leading-5 [overflow-wrap:anywhere]">
      {typeof value === 'string' ? <LongText text={value} /> : <Value value={value} open={open} />}
    </div>
  )
}

type BlockProps = { readonly label: string; readonly value: unknown; readonly tone?: 'plain' | 'bad' }

/** The same with a name and a button that copies it. */
export function JsonBlock({ label, value, tone = 'plain' }: BlockProps) {
  return (
    <div>
      <div className="mb-0.5 flex items-center justify-between">
        <p className="text-xs font-medium text-soft">{label}</p>
        <IconButton icon="copy" label={`Copy ${label.toLowerCase()}`} onClick={() => void copy(pretty(value), label)} />
      </div>
      <div
        tabIndex={0}
        role="group"
        aria-label={label}
        className={`max-h-80 overflow-auto rounded-lg px-3 py-2 ${tone === 'bad' ? 'bg-bad-soft text-bad' : 'bg-raised'}`}
      >
        <JsonView value={value} />
      </div>
    </div>
  )
}

function Value({ value, open, name }: { readonly value: unknown; readonly open: number; readonly name?: string }) {
  const label = name !== undefined && <span className="text-soft">{name}: </span>
  if (typeof value !== 'object' || value === null) {
    return (
      <div>
        {label}
        <Leaf value={value} />
      </div>
    )
  }
  const members = Object.entries(value)
  const size = Array.isArray(value) ? `[${members.length}]` : `{${members.length}}`
  if (members.length === 0) {
    return (
      <div>
        {label}
        {Array.isArray(value) ? '[]' : '{}'}
      </div>
    )
  }
  return (
    <details open={open > 0}>
      <summary className="-ml-1 inline-flex items-center gap-0.5 rounded px-1 hover:bg-hover">
        <Icon name="chevron" size={11} className="shrink-0 transition-transform [[open]>summary>&]:rotate-90" />
        {label}
        <span className="text-soft">{size}</span>
      </summary>
      <div className="ml-1 border-l border-line pl-3">
        {members.slice(0, MAX_MEMBERS).map(([member, each]) => (
          <Value key={member} name={member} value={each} open={open - 1} />
        ))}
        {members.length > MAX_MEMBERS && <div className="text-soft">… {members.length - MAX_MEMBERS} more</div>}
      </div>
    </details>
  )
}

function Leaf({ value }: { readonly value: unknown }) {
  if (typeof value === 'string') return <LongText text={value} quoted />
  const color = typeof value === 'number' ? 'text-live' : 'text-accent'
  return <span className={color}>{String(value)}</span>
}

function LongText({ text, quoted = false }: { readonly text: string; readonly quoted?: boolean }) {
  const [all, setAll] = useState(false)
  const shown = all ? text : brief(text, MAX_TEXT)
  return (
    <span className={`whitespace-pre-wrap ${quoted ? 'text-good' : ''}`}>
      {quoted ? JSON.stringify(shown) : shown}
      {text.length > MAX_TEXT && !all && (
        <button type="button" className="ml-1 rounded px-1 text-accent underline" onClick={() => setAll(true)}>
          show all {text.length} characters
        </button>
      )}
    </span>
  )
}
