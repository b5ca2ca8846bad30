import type { AgencyMetadata } from '@bureau/protocol'
import { connectionsOf } from './connections.ts'
import { type AgentNode, agentsOf } from '../server/queries.ts'

export type Placed = { readonly agent: AgentNode; readonly x: number; readonly y: number }

const WIDTH = 260
const GAP_BETWEEN_LAYERS = 70
const HEAD_HEIGHT = 84
const TOOL_HEIGHT = 22

/** How high a card is about, which says where the next layer begins. */
const heightOf = ({ data }: AgentNode): number => HEAD_HEIGHT + Math.min(6, data.tools.length) * TOOL_HEIGHT

/** Agents in layers by their distance from the entry points, each layer centred. */
export function layOut(metadata: AgencyMetadata): Placed[] {
  const agents = agentsOf(metadata)
  const depth = depthsOf(metadata)
  const layers = Map.groupBy(agents, ({ id }) => depth.get(id) ?? 0)
  const placed: Placed[] = []
  let y = 0
  for (const at of [...layers.keys()].toSorted((a, b) => a - b)) {
    const layer = layers.get(at)!
    layer.forEach((agent, index) => placed.push({ agent, x: (index - (layer.length - 1) / 2) * WIDTH, y }))
    y += Math.max(...layer.map(heightOf)) + GAP_BETWEEN_LAYERS
  }
  return placed
}

/** How many places two cards of a layer are apart: 1 to the neighbour at the right. */
export const stepsBetween = (from: Placed, to: Placed): number => (to.x - from.x) / WIDTH

function depthsOf(metadata: AgencyMetadata): ReadonlyMap<string, number> {
  const depth = new Map(metadata.metadata.entryPoints.map((name) => [name, 0]))
  const connections = connectionsOf(metadata)
  const queue = [...depth.keys()]
  for (const name of queue) {
    for (const { source, target } of connections) {
      if (source !== name || depth.has(target)) continue
      depth.set(target, depth.get(name)! + 1)
      queue.push(target)
    }
  }
  return depth
}
