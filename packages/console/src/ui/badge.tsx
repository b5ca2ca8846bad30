import type { ReactNode } from 'react'

type Tone = 'plain' | 'good' | 'bad' | 'warn' | 'live' | 'accent'

const TONES: Readonly<Record<Tone, string>> = {
  plain: 'bg-raised text-soft',
  good: 'bg-good-soft text-good',
  bad: 'bg-bad-soft text-bad',
  warn: 'bg-warn-soft text-warn',
  live: 'bg-live-soft text-live',
  accent: 'bg-accent-soft text-accent',
}

export function Badge({ tone = 'plain', children }: { readonly tone?: Tone; readonly children: ReactNode }) {
  return (
    <span
      className={`inline-flex items-center gap-1 rounded-md px-1.5 py-0.5 text-xs font-medium whitespace-nowrap ${TONES[tone]}`}
    >
      {children}
    </span>
  )
}

/** Several words, as many in a row as there is room for. */
export const Badges = ({ of }: { readonly of: readonly string[] }) => (
  <span className="flex flex-wrap gap-1">
    {of.map((each) => (
      <Badge key={each}>{each}</Badge>
    ))}
  </span>
)

const STATUS_TONES: Readonly<Record<string, Tone>> = {
  queued: 'plain',
  running: 'live',
  cancelling: 'warn',
  waiting: 'warn',
  completed: 'good',
  delivered: 'good',
  active: 'good',
  live: 'good',
  draining: 'warn',
  dead: 'bad',
  enabled: 'good',
  ok: 'good',
  failed: 'bad',
  error: 'bad',
  revoked: 'bad',
  expired: 'bad',
  cancelled: 'plain',
  pending: 'warn',
}

/** The state of something, in the server's own word. */
export function Status({ of }: { readonly of: string }) {
  const isLive = of === 'running' || of === 'cancelling'
  return (
    <Badge tone={STATUS_TONES[of] ?? 'plain'}>
      {isLive && <span className="blink size-1.5 rounded-full bg-current" />}
      {of}
    </Badge>
  )
}

const VERSION_LENGTH = 7

/** A version of an agency, by the beginning of its hash; null: no run of it has begun. */
export function Version({ of }: { readonly of: string | null }) {
  if (of === null) return '–'
  return (
    <code title={of} className="text-xs font-normal">
      {of.slice(0, VERSION_LENGTH)}
    </code>
  )
}
