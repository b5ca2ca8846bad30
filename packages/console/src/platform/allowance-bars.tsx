import type { Allowance } from '@bureau/protocol'
import { dollars, whole } from '../ui/format.ts'

type Amount = 'messages' | 'tokens' | 'costUsd'

const AMOUNTS: readonly { readonly of: Amount; readonly name: string; readonly shown: (amount: number) => string }[] = [
  { of: 'messages', name: 'messages', shown: whole },
  { of: 'tokens', name: 'tokens', shown: whole },
  { of: 'costUsd', name: 'cost', shown: dollars },
]

/** What is used of each limit of the period, as a bar; what has no limit as a number. */
export function AllowanceBars({ allowance }: { readonly allowance: Allowance }) {
  const limited = AMOUNTS.filter(({ of }) => allowance[of] !== null)
  if (limited.length === 0) {
    return (
      <span className="text-xs text-soft">
        no limit; {dollars(allowance.used.costUsd)} this {allowance.period}
      </span>
    )
  }
  return (
    <div className="flex min-w-36 flex-col gap-1.5">
      {limited.map(({ of, name, shown }) => {
        const limit = (allowance[of] ?? 0) + allowance.granted[of]
        return <Bar key={of} name={name} used={allowance.used[of]} limit={limit} shown={shown} />
      })}
    </div>
  )
}

type BarProps = {
  readonly name: string
  readonly used: number
  readonly limit: number
  readonly shown: (amount: number) => string
}

function Bar({ name, used, limit, shown }: BarProps) {
  const share = limit <= 0 ? 1 : Math.min(1, Math.max(0, used / limit))
  const color = share >= 1 ? 'bg-bad' : share >= 0.8 ? 'bg-warn' : 'bg-good'
  const text = `${shown(used)} of ${shown(limit)}`
  return (
    <div>
      <div className="flex justify-between gap-3 text-xs text-soft tabular-nums">
        <span>{name}</span>
        <span>{text}</span>
      </div>
      <div
        role="meter"
        aria-label={name}
        aria-valuemin={0}
        aria-valuemax={Math.max(limit, used)}
        aria-valuenow={used}
        aria-valuetext={text}
        className="h-1.5 overflow-hidden rounded-full bg-raised"
      >
        <div className={`h-full rounded-full ${color}`} style={{ width: `${share * 100}%` }} />
      </div>
    </div>
  )
}
