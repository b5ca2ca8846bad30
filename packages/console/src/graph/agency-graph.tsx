import '@xyflow/react/dist/style.css'
import type { AgencyMetadata } from '@bureau/protocol'
import { useQuery } from '@tanstack/react-query'
import {
  Background,
  type BuiltInEdge,
  Controls,
  Handle,
  MarkerType,
  type Node,
  type NodeProps,
  Panel,
  Position,
  ReactFlow,
} from '@xyflow/react'
import { useMemo, useState, useSyncExternalStore } from 'react'
import type { ChatSession } from '../chats/chat-session.ts'
import { useSession } from '../chats/sessions.ts'
import { agentsOf, metadataQuery } from '../server/queries.ts'
import { Unread } from '../ui/page.tsx'
import { type Activity, activityOf, NO_ACTIVITY } from './activity.ts'
import { AgentDetail } from './agent-detail.tsx'
import { AgentFace, AgentOutline, lookOf } from './agent-outline.tsx'
import { connectionsOf, reachedFrom, type Way } from './connections.ts'
import { layOut, type Placed, stepsBetween, wayBetween } from './layout.ts'
import { LineBetweenRows } from './line-between-rows.tsx'

type Props = { readonly agency: string; readonly session?: ChatSession | undefined }

/** The agents of an agency and who may reach whom. The way of the latest run of a chat is lit while it goes on. */
export function AgencyGraph({ agency, session }: Props) {
  const metadata = useQuery(metadataQuery(agency))
  const { data } = metadata
  if (!data) return <Unread of={metadata} />
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
const EDGE_TYPES = { betweenRows: LineBetweenRows }

function Graph({ metadata, activity }: { readonly metadata: AgencyMetadata; readonly activity: Activity }) {
  const [selected, setSelected] = useState<string>()
  const isNarrow = useIsNarrow()
  const placed = useMemo(() => layOut(metadata), [metadata])
  const nodes: AgentFlowNode[] = placed.map((each) => ({
    id: each.agent.id,
    type: 'agent',
    position: { x: each.x, y: each.y },
    data: { placed: each, activity },
    ariaLabel: `Agent ${each.agent.data.label}`,
  }))
  const agent = agentsOf(metadata).find(({ id }) => id === selected)
  const close = (): void => {
    setSelected(undefined)
    document.querySelector<HTMLElement>(`[data-id="${CSS.escape(selected ?? '')}"]`)?.focus()
  }
  const detail = agent && (
    <AgentDetail key={agent.id} agent={agent} reached={reachedFrom(agent.id, metadata)} onClose={close} />
  )
  if (isNarrow) {
    return (
      <div className="relative h-full">
        <AgentOutline
          metadata={metadata}
          agents={placed.map((each) => each.agent)}
          activity={activity}
          select={setSelected}
        />
        {detail}
      </div>
    )
  }
  return (
    <div className="relative h-full">
      <ReactFlow
        nodes={nodes}
        edges={edgesOf(metadata, placed, activity)}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        fitView
        fitViewOptions={{ minZoom: 0.5, maxZoom: 1.1, padding: 0.15 }}
        minZoom={0.2}
        proOptions={{ hideAttribution: true }}
        // By a click, and by Enter or the space bar.
        onNodesChange={(changes) => {
          for (const change of changes) if (change.type === 'select' && change.selected) setSelected(change.id)
        }}
        onPaneClick={() => setSelected(undefined)}
        aria-label="Agents"
      >
        <Background color="var(--color-strong-line)" gap={22} />
        <Controls showInteractive={false} />
        <Legend metadata={metadata} />
      </ReactFlow>
      {detail}
    </div>
  )
}

type Line = BuiltInEdge | LineBetweenRows

function edgesOf(metadata: AgencyMetadata, placed: readonly Placed[], { ways, active }: Activity): Line[] {
  const places = new Map(placed.map((each) => [each.agent.id, each]))
  return connectionsOf(metadata).map(({ id, source, target, way }) => {
    const isTaken = ways.has(`${source}->${target}`)
    const stroke = isTaken ? 'var(--color-accent)' : 'var(--color-strong-line)'
    return {
      id,
      source,
      target,
      ...routeOf(places.get(source)!, places.get(target)!, placed),
      animated: isTaken && active.has(target),
      focusable: false,
      style: { stroke, strokeWidth: isTaken ? 2.5 : 1.5, strokeDasharray: DASHES[way] },
      markerEnd: { type: MarkerType.ArrowClosed, color: stroke },
    }
  })
}

const DASHES: Readonly<Record<Way, string>> = {
  Messages: 'none',
  'Hands over to': '3 4',
  'Messages or hands over to': '12 4 3 4',
}

/** What the lines mean, of those that are there. */
function Legend({ metadata }: { readonly metadata: AgencyMetadata }) {
  const ways = [...new Set(connectionsOf(metadata).map(({ way }) => way))]
  if (ways.length === 0) return null
  return (
    <Panel position="top-left">
      <ul aria-label="Lines" className="card flex flex-col px-2.5 py-1.5 text-xs text-soft">
        {ways.map((way) => (
          <li key={way} className="flex items-center gap-2">
            <svg aria-hidden="true" width="38" height="8" className="stroke-soft">
              <path d="M0 4h38" strokeWidth="1.5" strokeDasharray={DASHES[way]} />
            </svg>
            {way}
          </li>
        ))}
      </ul>
    </Panel>
  )
}

/** Where lines leave a card and arrive: those down and up, and at the sides those between neighbours, each direction at its own place. */
const ENDS = [
  { type: 'source', position: Position.Bottom },
  { type: 'target', position: Position.Top },
  { type: 'source', position: Position.Top, style: { left: '70%' } },
  { type: 'target', position: Position.Bottom, style: { left: '70%' } },
  { type: 'source', position: Position.Right, style: { top: '35%' } },
  { type: 'target', position: Position.Left, style: { top: '35%' } },
  { type: 'source', position: Position.Left, style: { top: '65%' } },
  { type: 'target', position: Position.Right, style: { top: '65%' } },
] as const

/** The sides of two cards that a line connects, and its way where others stand between them in their row: above it. */
function routeOf(source: Placed, target: Placed, placed: readonly Placed[]) {
  const between = (sourceHandle: Position, targetHandle: Position) => ({ sourceHandle, targetHandle })
  if (source.row !== target.row) {
    const ends = source.y < target.y ? [Position.Bottom, Position.Top] : [Position.Top, Position.Bottom]
    return { type: 'betweenRows', data: wayBetween(source, target, placed), ...between(ends[0]!, ends[1]!) } as const
  }
  const steps = stepsBetween(source, target)
  if (steps === 1) return between(Position.Right, Position.Left)
  if (steps === -1) return between(Position.Left, Position.Right)
  // Further ones pass above nearer ones.
  const offset = 9 + 6 * Math.abs(steps) + (steps < 0 ? 3 : 0)
  return { type: 'smoothstep', pathOptions: { offset }, ...between(Position.Top, Position.Top) } as const
}

function AgentCard({ data: { placed, activity } }: NodeProps<AgentFlowNode>) {
  const { id } = placed.agent
  return (
    <div
      className={`card w-56 px-3 py-2.5 shadow-sm transition-shadow ${lookOf(id, activity)}`}
      data-active={activity.active.has(id)}
    >
      <AgentFace agent={placed.agent} activity={activity} />
      {ENDS.map((end) => (
        <Handle key={end.type + end.position} id={end.position} {...end} isConnectable={false} className="opacity-0" />
      ))}
    </div>
  )
}

const NARROW = matchMedia('(max-width: 767px)')

function watchWidth(changed: () => void): () => void {
  NARROW.addEventListener('change', changed)
  return () => NARROW.removeEventListener('change', changed)
}

/** Whether there is too little room for a graph that can be read. */
const useIsNarrow = (): boolean => useSyncExternalStore(watchWidth, () => NARROW.matches)
