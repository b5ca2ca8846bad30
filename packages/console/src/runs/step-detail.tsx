import type { RecentRunStep } from '@bureau/protocol'
import { IconButton } from '../ui/button.tsx'
import { Badge } from '../ui/badge.tsx'
import { duration, parsed, whole } from '../ui/format.ts'
import { JsonBlock } from '../ui/json-view.tsx'

/** What went into a step, and what came out of it. */
export function StepDetail({ step, onClose }: { readonly step: RecentRunStep; readonly onClose: () => void }) {
  return (
    // On a phone it opens below the timeline, where nobody would see it.
    <section
      key={step.id}
      ref={showWhole}
      aria-label={`Step ${step.name}`}
      className="card flex flex-col gap-3 p-4 text-[13px]"
    >
      <div className="flex items-start justify-between gap-2">
        <div className="min-w-0">
          <h2 className="truncate font-mono text-[13px] font-semibold">{step.name}</h2>
          <p className="text-xs text-soft">
            {step.kind} of {step.agent}
          </p>
        </div>
        <IconButton icon="close" label="Close" className="-mt-1 -mr-2" onClick={onClose} />
      </div>
      <Facts step={step} />
      {step.error_code !== null && (
        <div className="rounded-lg bg-bad-soft px-3 py-2 text-bad">
          <p className="font-mono text-xs">{step.error_code}</p>
          {step.failure && (
            <pre className="mt-1 font-mono text-xs whitespace-pre-wrap [overflow-wrap:anywhere]">{step.failure}</pre>
          )}
        </div>
      )}
      {step.input !== undefined && (
        <JsonBlock label={step.kind === 'tool' ? 'Arguments' : 'Prompt'} value={parsed(step.input)} />
      )}
      {step.output !== undefined && (
        <JsonBlock label={step.kind === 'tool' ? 'Result' : 'Answer'} value={parsed(step.output)} />
      )}
      {step.kind === 'model' && step.input === undefined && (
        <p className="text-xs text-soft">
          Prompts are recorded when the server exposes instructions (exposeInstructions).
        </p>
      )}
    </section>
  )
}

const showWhole = (section: HTMLElement | null): void => section?.scrollIntoView({ block: 'nearest' })

function Facts({ step }: { readonly step: RecentRunStep }) {
  const { usage, duration_ms: took, first_output_ms: first } = step
  const speed =
    usage && took !== null && first !== undefined && took > first
      ? usage.output_tokens / ((took - first) / 1_000)
      : undefined
  return (
    <div className="flex flex-wrap gap-1.5">
      <Badge>{took === null ? 'running' : duration(took)}</Badge>
      {first !== undefined && <Badge>first token after {duration(first)}</Badge>}
      {usage && <Badge>{whole(usage.input_tokens)} in</Badge>}
      {usage && usage.cached_tokens > 0 && <Badge>{whole(usage.cached_tokens)} cached</Badge>}
      {usage && <Badge>{whole(usage.output_tokens)} out</Badge>}
      {speed !== undefined && Number.isFinite(speed) && <Badge>{whole(Math.round(speed))} tokens/s</Badge>}
    </div>
  )
}
