import type { AgencyMetadata } from '@bureau/protocol'
import { Initial } from '../parts/part-view.tsx'
import type { AgentNode } from '../server/queries.ts'
import type { Activity } from './activity.ts'
import { reachedFrom } from './connections.ts'

type FaceProps = { readonly agent: AgentNode; readonly activity: Activity }

const MAX_TOOLS = 6

/** An agent by its name, model and tools. */
export function AgentFace({ agent: { id, data }, activity }: FaceProps) {
  const left = data.tools.length - MAX_TOOLS
  return (
    <>
      <div className="flex items-center gap-2">
        <Initial of={id} />
        <span className="min-w-0 flex-1 truncate text-[13px] font-semibold">{data.label}</span>
        {data.isEntryPoint && (
          <span className="rounded bg-accent-soft px-1.5 text-[11px] font-medium text-accent">entry</span>
        )}
      </div>
      <p className="mt-1 truncate font-mono text-[11px] text-soft">{data.model}</p>
      {data.tools.length > 0 && (
        <ul className="mt-1.5 flex flex-col gap-1">
          {data.tools.slice(0, MAX_TOOLS).map(({ name }) => (
            <li
              key={name}
              className={`truncate rounded px-1.5 font-mono text-[11px] ${activity.tools.has(`${id} ${name}`) ? 'bg-live-soft text-live' : 'bg-raised text-soft'}`}
            >
              {name}
            </li>
          ))}
          {left > 0 && <li className="text-[11px] text-soft">and {left} more</li>}
        </ul>
      )}
    </>
  )
}

/** How the card of an agent shows that a run is there, or has been. */
export function lookOf(id: string, { active, visited }: Activity): string {
  if (active.has(id)) return 'border-accent! ring-4 ring-accent/25'
  return visited.has(id) ? 'border-accent!' : ''
}

type OutlineProps = {
  readonly metadata: AgencyMetadata
  /** From the entry points on. */
  readonly agents: readonly AgentNode[]
  readonly activity: Activity
  readonly select: (agent: string) => void
}

/** The agents below each other, each with those that it reaches: where a graph would be too small to read. */
export function AgentOutline({ metadata, agents, activity, select }: OutlineProps) {
  return (
    <ul aria-label="Agents" className="flex h-full flex-col gap-3 overflow-y-auto p-3">
      {agents.map((agent) => {
        const { id } = agent
        const reached = Map.groupBy(reachedFrom(id, metadata), ({ way }) => way)
        return (
          <li key={id}>
            <button
              type="button"
              data-id={id}
              data-active={activity.active.has(id)}
              className={`card block w-full px-3 py-2.5 text-left hover:bg-hover ${lookOf(id, activity)}`}
              onClick={() => select(id)}
            >
              <AgentFace agent={agent} activity={activity} />
              {[...reached].map(([way, targets]) => (
                <p
                  key={way}
                  className="mt-2 flex flex-wrap gap-x-2 border-t border-line pt-2 text-xs wrap-anywhere text-soft"
                >
                  {way}
                  {targets.map(({ id: edge, target, label }) => (
                    <span
                      key={edge}
                      className={activity.ways.has(`${id}->${target}`) ? 'font-medium text-accent' : 'text-ink'}
                    >
                      {label}
                    </span>
                  ))}
                </p>
              ))}
            </button>
          </li>
        )
      })}
    </ul>
  )
}
