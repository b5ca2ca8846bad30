import type { ReactNode } from 'react'
import { HINTS } from '../server/hints.ts'
import { Icon } from '../ui/icons.tsx'

/** Names and values of a run, in a row where there is room. */
export function RunFacts({ facts }: { readonly facts: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="card grid grid-cols-2 gap-x-6 gap-y-2 px-4 py-3 sm:grid-cols-4 lg:flex lg:flex-wrap lg:justify-between">
      {facts.map(([name, value]) => (
        <div key={name} className="min-w-0">
          <dt className="text-xs text-soft">{name}</dt>
          <dd className="truncate font-medium tabular-nums">{value}</dd>
        </div>
      ))}
    </dl>
  )
}

type FailedProps = {
  readonly error: { readonly code: string; readonly message: string; readonly class?: string }
  /** What was thrown, where the server shows it. */
  readonly failure?: string | null | undefined
}

/** Why a run failed, and what to do about it. */
export function WhyFailed({ error: { code, message, class: kind }, failure }: FailedProps) {
  return (
    <div className="flex flex-col gap-1 rounded-xl bg-bad-soft px-4 py-3 text-[13px]">
      <p className="flex items-start gap-2 font-medium text-bad">
        <Icon name="alert" className="mt-0.5 shrink-0" />
        {message}
      </p>
      {HINTS[code] && <p>{HINTS[code]}</p>}
      {failure && <pre className="font-mono text-xs whitespace-pre-wrap [overflow-wrap:anywhere]">{failure}</pre>}
      <p className="font-mono text-xs text-soft">{kind === undefined ? code : `${code}, ${kind}`}</p>
    </div>
  )
}
