import type { RecentRunDetail, RecentRunStep } from '@bureau/protocol'
import { counted, duration } from '../ui/format.ts'
import { Icon, type IconName } from '../ui/icons.tsx'

type Props = {
  readonly run: RecentRunDetail
  /** The id of the step that is open. */
  readonly open: number | undefined
  readonly setOpen: (step: number) => void
}

/** The steps of a run, in the order in which they began, each as a bar from its beginning to its end. */
export function Timeline({ run, open, setOpen }: Props) {
  const now = Math.max(run.duration_ms ?? 0, ...run.steps.map((step) => step.start_ms + (step.duration_ms ?? 0)), 1)
  const depths = depthsOf(run.steps)
  return (
    <section aria-label="Timeline" className="card overflow-hidden">
      <div className="flex justify-between border-b border-line px-3 py-2 text-xs text-soft tabular-nums">
        <span>0</span>
        <span>{duration(now)}</span>
      </div>
      <ol className="max-h-[65dvh] overflow-y-auto py-1">
        {run.steps.map((step) => (
          <li key={step.id}>
            <Row
              step={step}
              depth={depths.get(step.id) ?? 0}
              total={now}
              isOpen={step.id === open}
              pick={() => setOpen(step.id)}
            />
          </li>
        ))}
      </ol>
      {run.steps.length === 0 && (
        <p className="px-3 pb-3 text-[13px] text-soft">The run ended before its first step.</p>
      )}
      {run.steps_left_out > 0 && (
        <p className="border-t border-line px-3 py-2 text-xs text-soft">
          {run.steps_left_out} more steps found no room.
        </p>
      )}
    </section>
  )
}

const KINDS: Readonly<Record<RecentRunStep['kind'], { readonly icon: IconName; readonly bar: string }>> = {
  agent: { icon: 'agent', bar: 'bg-accent/50' },
  model: { icon: 'brain', bar: 'bg-live' },
  tool: { icon: 'tool', bar: 'bg-good' },
}

type RowProps = {
  readonly step: RecentRunStep
  readonly depth: number
  /** Milliseconds that the whole width stands for. */
  readonly total: number
  readonly isOpen: boolean
  readonly pick: () => void
}

function Row({ step, depth, total, isOpen, pick }: RowProps) {
  const { icon, bar } = KINDS[step.kind]
  const isFailed = step.error_code !== null
  const took = step.duration_ms ?? total - step.start_ms
  return (
    <button
      type="button"
      aria-pressed={isOpen}
      onClick={pick}
      className={`grid min-h-8 w-full grid-cols-[minmax(0,3fr)_minmax(0,2fr)_3.75rem] sm:grid-cols-[minmax(0,1fr)_minmax(0,1fr)_4.5rem] items-center gap-2 px-3 text-left text-[13px] hover:bg-hover ${isOpen ? 'bg-hover' : ''}`}
    >
      <span className="flex min-w-0 items-center gap-1.5" style={{ paddingLeft: depth * 14 }}>
        <Icon
          name={isFailed ? 'alert' : icon}
          size={14}
          className={`shrink-0 ${isFailed ? 'text-bad' : 'text-soft'}`}
        />
        <span
          className={`truncate ${step.kind === 'agent' ? 'font-medium' : 'font-mono text-xs'} ${isFailed ? 'text-bad' : ''}`}
        >
          {step.name}
        </span>
        {step.usage && (
          <span className="hidden shrink-0 text-xs text-soft tabular-nums xl:inline">
            {counted(step.usage.total_tokens, 'token')}
          </span>
        )}
      </span>
      <span className="relative h-3">
        <span
          className={`absolute h-full min-w-0.5 rounded-sm ${isFailed ? 'bg-bad' : bar} ${step.duration_ms === null ? 'blink' : ''}`}
          style={{ left: `${(step.start_ms / total) * 100}%`, width: `${Math.max(0.5, (took / total) * 100)}%` }}
        />
      </span>
      <span className="text-right text-xs text-soft tabular-nums">
        {step.duration_ms === null ? '…' : duration(step.duration_ms)}
      </span>
    </button>
  )
}

function depthsOf(steps: readonly RecentRunStep[]): ReadonlyMap<number, number> {
  const depths = new Map<number, number>()
  for (const { id, parent } of steps) depths.set(id, parent === null ? 0 : (depths.get(parent) ?? 0) + 1)
  return depths
}
