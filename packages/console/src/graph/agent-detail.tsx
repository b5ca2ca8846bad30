import { Fragment, useEffect, useRef } from 'react'
import type { AgentNode } from '../server/queries.ts'
import { Badge, Badges } from '../ui/badge.tsx'
import { IconButton } from '../ui/button.tsx'
import { JsonView } from '../ui/json-view.tsx'
import type { reachedFrom } from './connections.ts'

type Props = {
  readonly agent: AgentNode
  readonly reached: ReturnType<typeof reachedFrom>
  readonly onClose: () => void
}

/** Everything that the server says of an agent. */
export function AgentDetail({ agent, reached, onClose }: Props) {
  const { data } = agent
  const section = useRef<HTMLElement>(null)
  // Not its button: the same Enter would press it.
  useEffect(() => section.current?.focus(), [])
  return (
    <section
      ref={section}
      tabIndex={-1}
      aria-label={`Agent ${data.label}`}
      onKeyDown={({ key }) => key === 'Escape' && onClose()}
      className="card absolute inset-x-2 bottom-2 z-10 max-h-[60%] overflow-y-auto p-3 text-[13px] shadow-xl outline-none sm:inset-x-auto sm:top-2 sm:right-2 sm:bottom-auto sm:max-h-[calc(100%-1rem)] sm:w-80"
    >
      <div className="flex items-start justify-between gap-2">
        <h3 className="text-sm font-semibold">{data.label}</h3>
        <IconButton icon="close" label="Close" className="-mt-1 -mr-1" onClick={onClose} />
      </div>
      {data.description && <p className="text-soft">{data.description}</p>}
      <dl className="mt-2 grid grid-cols-[auto_1fr] gap-x-3 gap-y-1">
        <dt className="text-soft">Model</dt>
        <dd className="font-mono text-xs leading-5">{data.model}</dd>
        {data.capabilities.length > 0 && (
          <>
            <dt className="text-soft">Can</dt>
            <dd>
              <Badges of={data.capabilities} />
            </dd>
          </>
        )}
        {[...Map.groupBy(reached, ({ way }) => way)].map(([way, targets]) => (
          <Fragment key={way}>
            <dt className="text-soft">{way}</dt>
            <dd className="wrap-anywhere">{targets.map(({ label }) => label).join(', ')}</dd>
          </Fragment>
        ))}
      </dl>
      <h4 className="mt-3 mb-1 text-xs font-medium text-soft">Instructions</h4>
      <Instructions text={data.instructions} />
      {data.tools.length > 0 && <h4 className="mt-3 mb-1 text-xs font-medium text-soft">Tools</h4>}
      {data.tools.map((tool) => (
        <details key={tool.name} className="rounded-lg px-1.5 py-1 hover:bg-hover">
          <summary className="flex items-center gap-2">
            <span className="font-mono text-xs font-medium">{tool.name}</span>
            <Badge>{tool.type}</Badge>
          </summary>
          <p className="mt-1 text-xs text-soft">{tool.description}</p>
          {tool.inputSchema && <JsonView value={tool.inputSchema} />}
        </details>
      ))}
    </section>
  )
}

function Instructions({ text }: { readonly text: AgentNode['data']['instructions'] }) {
  if (!text)
    return (
      <p className="text-xs text-soft">The server does not show them. Its option exposeInstructions changes that.</p>
    )
  return (
    <p
      className="max-h-60 overflow-y-auto rounded-lg bg-raised p-2 text-xs whitespace-pre-wrap"
      tabIndex={0}
      role="group"
      aria-label="Instructions"
    >
      {text}
    </p>
  )
}
