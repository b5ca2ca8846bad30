import type { Part } from '@bureau/client'
import { createContext, type ReactNode, useContext } from 'react'
import { Button } from '../ui/button.tsx'
import { brief, duration, parsed, pretty } from '../ui/format.ts'
import { Icon, type IconName } from '../ui/icons.tsx'
import { JsonBlock } from '../ui/json-view.tsx'
import type { Turn } from '../chats/chat.ts'

type ToolPart = Extract<Part, { type: 'tool' }>
type AgentPart = Extract<Part, { type: 'agent' }>

/** A call of a tool, as it was made. */
export type ToolCall = { readonly agent: string; readonly name: string; readonly input: unknown }

/** Opens a call to be made again by hand; undefined: here nobody can. */
export const CallAgainContext = createContext<((call: ToolCall) => void) | undefined>(undefined)

/** How tools say that they have failed: the model reads it too. */
const FAILED = /^(?:An error occurred while running the tool\.|Error: |Tool '.+' not found\.)/

const isFailed = (output: unknown): boolean => typeof output === 'string' && FAILED.test(output)

/** One call of a tool: its name and how it went; opened, its arguments and its result. */
export function ToolCard({ part, times }: { readonly part: ToolPart; readonly times: Turn['times'] }) {
  const { agent, name, input, output, state } = part
  const callAgain = useContext(CallAgainContext)
  const failed = isFailed(output)
  return (
    <CallCard icon="tool" name={name} tone={failed ? 'failed' : state} summary={summaryOf(input)} time={times[part.id]}>
      <JsonBlock label="Arguments" value={typeof input === 'string' ? parsed(input) : input} />
      {output !== undefined && (
        <JsonBlock
          label="Result"
          value={typeof output === 'string' ? parsed(output) : output}
          tone={failed ? 'bad' : 'plain'}
        />
      )}
      {failed && (
        <p className="text-xs text-soft">
          The agent got this text and goes on. What the tool has thrown is in the timeline of the run.
        </p>
      )}
      {callAgain && state !== 'input' && (
        <Button icon="retry" className="self-start" onClick={() => callAgain({ agent, name, input })}>
          Run by hand
        </Button>
      )}
    </CallCard>
  )
}

type NestedProps = { readonly part: AgentPart; readonly times: Turn['times']; readonly children: ReactNode }

/** A message to another agent, and the conversation that came of it. */
export function NestedCard({ part, times, children }: NestedProps) {
  const { agent, name, input, state } = part
  return (
    <CallCard
      icon="agent"
      name={`${agent} → ${name}`}
      tone={state}
      summary={brief(pretty(messageIn(input)), 120)}
      time={times[part.id]}
      open
    >
      <p dir="auto" className="text-[13px] whitespace-pre-wrap text-soft">
        {pretty(messageIn(input))}
      </p>
      <div className="flex flex-col gap-2 border-l-2 border-accent/40 pl-3">{children}</div>
    </CallCard>
  )
}

type CallTone = 'input' | 'running' | 'done' | 'stopped' | 'failed' | 'approval' | 'denied'

const TONES: Readonly<Record<CallTone, { readonly icon: IconName; readonly look: string; readonly label: string }>> = {
  input: { icon: 'retry', look: 'text-live', label: 'being called' },
  running: { icon: 'retry', look: 'text-live', label: 'running' },
  approval: { icon: 'clock', look: 'text-warn', label: 'waits for an approval' },
  done: { icon: 'check', look: 'text-good', label: 'done' },
  stopped: { icon: 'stop', look: 'text-soft', label: 'stopped' },
  failed: { icon: 'alert', look: 'text-bad', label: 'failed' },
  denied: { icon: 'close', look: 'text-bad', label: 'rejected' },
}

type CallProps = {
  readonly icon: IconName
  readonly name: string
  readonly tone: CallTone
  readonly summary: string
  readonly time: readonly [number, number | null] | undefined
  readonly open?: boolean
  readonly children: ReactNode
}

function CallCard({ icon, name, tone, summary, time, open = false, children }: CallProps) {
  const { icon: mark, look, label } = TONES[tone]
  const isLive = tone === 'running' || tone === 'input'
  return (
    <details open={open} className="rounded-xl border border-line bg-panel">
      <summary className="flex min-h-9 items-center gap-2 rounded-xl px-3 py-1.5 text-[13px] hover:bg-hover">
        <Icon name={icon} className="shrink-0 text-soft" />
        <span className="min-w-0 font-mono text-xs font-semibold wrap-anywhere">{name}</span>
        <span className="min-w-0 flex-1 truncate font-mono text-xs text-soft">{summary}</span>
        {time && time[1] !== null && (
          <span className="text-xs text-soft tabular-nums">{duration(time[1] - time[0])}</span>
        )}
        <span className={`flex items-center ${look}`} title={label}>
          <Icon name={mark} className={isLive ? 'spin' : ''} />
          <span className="sr-only">{label}</span>
        </span>
        <Icon name="chevron" className="shrink-0 text-soft transition-transform [[open]>summary>&]:rotate-90" />
      </summary>
      <div className="flex flex-col gap-2 border-t border-line px-3 py-2.5">{children}</div>
    </details>
  )
}

function summaryOf(input: unknown): string {
  const value = typeof input === 'string' ? parsed(input) : input
  if (typeof value !== 'object' || value === null) return brief(pretty(value ?? ''), 120)
  const members = Object.entries(value).map(
    ([name, each]) => `${name}: ${typeof each === 'string' ? each : JSON.stringify(each)}`,
  )
  return brief(members.join(', '), 120)
}

function messageIn(input: unknown): unknown {
  const value = typeof input === 'string' ? parsed(input) : input
  const message = (value as { message?: unknown } | null)?.message
  return message === undefined ? value : message
}
