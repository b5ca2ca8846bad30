import type { Part } from '@bureau/client'
import { memo } from 'react'
import { Markdown } from '../markdown/markdown.tsx'
import { buttonClass } from '../ui/button.tsx'
import { parsed, pretty } from '../ui/format.ts'
import { Icon } from '../ui/icons.tsx'
import { JsonBlock } from '../ui/json-view.tsx'
import type { Turn } from '../chats/chat.ts'
import { ApprovalCard } from './approval-card.tsx'
import { NestedCard, ToolCard } from './tool-card.tsx'

type TreeProps = {
  readonly parts: readonly Part[]
  /** The `agent` part whose conversation is shown; null: the conversation with the user. */
  readonly parent: string | null
  readonly times: Turn['times']
}

/** What one conversation of a run shows, nested conversations inside. */
function PartTree({ parts, parent, times }: TreeProps) {
  return partRows(parts, parent).map((row) => <PartRow key={row.part.id} {...row} parts={parts} times={times} />)
}

/** A part of a conversation; who speaks is named whenever that changes. */
export type PartOfConversation = { readonly part: Part; readonly speaks: boolean }

/** @param parent - The `agent` part whose conversation it is; null: the conversation with the user. */
export function partRows(parts: readonly Part[], parent: string | null): PartOfConversation[] {
  const own = parts.filter((part) => part.parent === parent)
  return own.map((part, at) => ({ part, speaks: part.agent !== '' && part.agent !== own[at - 1]?.agent }))
}

type RowProps = PartOfConversation & Pick<TreeProps, 'parts' | 'times'>

/** @param parts - All of the run: those of nested conversations are shown inside. */
export function PartRow({ part, speaks, parts, times }: RowProps) {
  return (
    <div className="flex flex-col gap-2">
      {speaks && <Speaker name={part.agent} />}
      {part.type === 'agent' ? (
        <NestedCard part={part} times={times}>
          <PartTree parts={parts} parent={part.id} times={times} />
        </NestedCard>
      ) : (
        <PartView part={part} times={times} />
      )}
    </div>
  )
}

/** What can be found in a part, and in the conversation inside it. */
export function textOfPart(part: Part, parts: readonly Part[]): string {
  switch (part.type) {
    case 'text':
    case 'reasoning':
      return part.text
    case 'tool':
      return [part.name, pretty(part.input), pretty(part.output)].join(' ')
    case 'agent': {
      const inside = parts.filter(({ parent }) => parent === part.id)
      return [part.name, pretty(part.input), ...inside.map((each) => textOfPart(each, parts))].join(' ')
    }
    case 'sign-in':
      return part.server
    case 'custom':
      return `${part.name} ${pretty(part.data)}`
    case 'file':
      return ''
  }
}

function Speaker({ name }: { readonly name: string }) {
  return (
    <p className="flex items-center gap-2 text-[13px] font-semibold">
      <Initial of={name} />
      {name}
    </p>
  )
}

/** The first letter of an agent, in its colour. */
export const Initial = ({ of }: { readonly of: string }) => (
  <span
    aria-hidden="true"
    className="flex size-6 items-center justify-center rounded-full text-[11px] font-bold text-white"
    style={{ background: colorOf(of) }}
  >
    {of.slice(0, 1).toUpperCase()}
  </span>
)

/** The same for the same name, dark enough for white letters. */
function colorOf(name: string): string {
  let hash = 7
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)!) % 360
  return `hsl(${hash} 55% 38%)`
}

type ViewProps = { readonly part: Exclude<Part, { type: 'agent' }>; readonly times: Turn['times'] }

const PartView = memo(function PartView({ part, times }: ViewProps) {
  switch (part.type) {
    case 'text':
      return <Answer text={part.text} streaming={part.state === 'streaming'} />
    case 'reasoning':
      return <Reasoning text={part.text} streaming={part.state === 'streaming'} />
    case 'tool': {
      const { approval } = part
      return approval ? <ApprovalCard approval={approval} /> : <ToolCard part={part} times={times} />
    }
    case 'sign-in':
      return <SignIn part={part} />
    case 'file':
      return (
        <img
          src={`data:${part.mediaType};base64,${part.data}`}
          alt="Made by the model"
          className="max-h-96 max-w-full rounded-xl border border-line"
        />
      )
    case 'custom':
      return <JsonBlock label={`Event ${part.name}`} value={part.data} />
  }
})

/** Structured output is an object in JSON: shown as a tree. */
function Answer({ text, streaming }: { readonly text: string; readonly streaming: boolean }) {
  const isObject = /^\s*[{[]/.test(text)
  const value = !streaming && isObject ? parsed(text) : undefined
  if (typeof value === 'object' && value !== null) return <JsonBlock label="Structured output" value={value} />
  if (streaming && isObject) return <pre className="font-mono text-xs whitespace-pre-wrap">{text}</pre>
  return <Markdown text={text} streaming={streaming} />
}

function Reasoning({ text, streaming }: { readonly text: string; readonly streaming: boolean }) {
  return (
    <details className="text-[13px] text-soft">
      <summary className="inline-flex min-h-7 items-center gap-1.5 rounded-lg px-1.5 hover:bg-hover">
        <Icon name="brain" className={streaming ? 'blink' : ''} />
        {streaming ? 'Reasoning …' : 'Reasoning'}
        <Icon name="chevron" size={13} className="transition-transform [[open]>summary>&]:rotate-90" />
      </summary>
      <div className="mt-1 ml-2 border-l-2 border-line pl-3">
        <Markdown text={text} streaming={streaming} />
      </div>
    </details>
  )
}

function SignIn({ part }: { readonly part: Extract<Part, { type: 'sign-in' }> }) {
  const isSafe = /^https?:/i.test(part.url)
  return (
    <div className="card flex flex-wrap items-center gap-3 px-3 py-2.5 text-[13px]">
      <Icon name="key" className="text-warn" />
      <span className="flex-1">
        {part.state === 'authorized' && `Signed in to ${part.server}.`}
        {part.state === 'failed' && `The sign-in to ${part.server} did not succeed.`}
        {part.state === 'pending' && `${part.server} wants you to sign in. The agent waits.`}
      </span>
      {part.state === 'pending' && isSafe && (
        <a className={buttonClass('primary')} href={part.url} target="_blank" rel="noreferrer noopener">
          Sign in
          <Icon name="external" />
        </a>
      )}
    </div>
  )
}
