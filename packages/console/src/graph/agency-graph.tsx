import '@xyflow/react/dist/style.css'
import type { AgencyMetadata } from '@bureau/protocol'
import { useQuery } from '@tanstack/react-query'
import {
  Background,
  Controls,
  type Edge,
  Handle,
  MarkerType,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
} from '@xyflow/react'
import { useMemo, useState } from 'react'
import type { ChatSession } from '../chats/chat-session.ts'
import { colorOf } from '../parts/part-view.tsx'
import { useSession } from '../chats/sessions.ts'
import { agentsOf, metadataQuery } from '../server/queries.ts'
import { Failure, Loading } from '../ui/page.tsx'
import { type Activity, activityOf, NO_ACTIVITY } from './activity.ts'
import { AgentDetail } from './agent-detail.tsx'
import { layOut, type Placed } from './layout.ts'

type Props = { readonly agency: string; readonly session?: ChatSession | undefined }

/** The agents of an agency and who may reach whom. The way of the latest run of a chat is lit while it goes on. */
export function AgencyGraph({ agency, session }: Props) {
  const { data, error, refetch } = useQuery(metadataQuery(agency))
  if (error) return <Failure error={error} retry={() => void refetch()} />
  if (!data) return <Loading />
  return session ? <LiveGraph metadata={data} session={session} /> : <Graph metadata={data} activity={NO_ACTIVITY} />
}

function LiveGraph({ metadata, session }: { readonly metadata: AgencyMetadata; readonly session: ChatSession }) {
  const { chat } = useSession(session)
  const activity = useMemo(() => activityOf(chat.turns.at(-1)), [chat.turns])
  return <Graph metadata={metadata} activity={activity} />
}

type AgentNodeData = { readonly placed: Placed; readonly activity: Activity }
type AgentFlowNode = Node<AgentNodeData, 'agent'>

const NODE_TYPES = { agent: AgentCard }

function Graph({ metadata, activity }: { readonly metadata: AgencyMetadata; readonly activity: Activity }) {
  const [selected, setSelected] = useState<string>()
  const placed = useMemo(() => layOut(metadata), [metadata])
  const nodes: AgentFlowNode[] = placed.map((each) => ({
    id: each.agent.id,
    type: 'agent',
    position: { x: each.x, y: each.y },
    data: { placed: each, activity },
    ariaLabel: `Agent ${each.agent.data.label}`,
  }))
  const agent = agentsOf(metadata).find(({ id }) => id === selected)
  return (
    <div className="relative h-full">
      <ReactFlow
        nodes={nodes}
        edges={edgesOf(metadata, activity)}
        nodeTypes={NODE_TYPES}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        fitView
        fitViewOptions={{ maxZoom: 1.1, padding: 0.15 }}
        minZoom={0.2}
        proOptions={{ hideAttribution: true }}
        onNodeClick={(_, { id }) => setSelected(id)}
        onSelectionChange={({ nodes: [first] }) => first && setSelected(first.id)}
        onPaneClick={() => setSelected(undefined)}
        aria-label="Agents"
      >
        <Background color="var(--color-strong-line)" gap={22} />
        <Controls showInteractive={false} />
      </ReactFlow>
      {agent && <AgentDetail agent={agent} onClose={() => setSelected(undefined)} />}
    </div>
  )
}

function edgesOf({ edges }: AgencyMetadata, { ways, active }: Activity): Edge[] {
  return edges
    .filter(({ type }) => type === 'communication')
    .map(({ id, source, target }) => {
      const isTaken = ways.has(`${source}->${target}`)
      const stroke = isTaken ? 'var(--color-accent)' : 'var(--color-strong-line)'
      return {
        id,
        source,
        target,
        animated: isTaken && active.has(target),
        focusable: false,
        style: { stroke, strokeWidth: isTaken ? 2.5 : 1.5 },
        markerEnd: { type: MarkerType.ArrowClosed, color: stroke },
      }
    })
}

const MAX_TOOLS = 6

function AgentCard({ data: { placed, activity } }: NodeProps<AgentFlowNode>) {
  const { id, data } = placed.agent
  const isActive = activity.active.has(id)
  const look = isActive ? 'border-accent! ring-4 ring-accent/25' : activity.visited.has(id) ? 'border-accent!' : ''
  const left = data.tools.length - MAX_TOOLS
  return (
    <div className={`card w-56 px-3 py-2.5 shadow-sm transition-shadow ${look}`} data-active={isActive}>
      <Handle type="target" position={Position.Top} isConnectable={false} className="opacity-0" />
      <div className="flex items-center gap-2">
        <span
          aria-hidden="true"
          className="flex size-6 items-center justify-center rounded-full text-[11px] font-bold text-white"
          style={{ background: colorOf(id) }}
        >
          {data.label.slice(0, 1).toUpperCase()}
        </span>
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
      <Handle type="source" position={Position.Bottom} isConnectable={false} className="opacity-0" />
    </div>
  )
}
