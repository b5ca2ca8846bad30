import type { AgencyMetadata } from '@bureau/protocol'
import { connectionsOf } from './connections.ts'
import { type AgentNode, agentsOf } from '../server/queries.ts'

type Row = { readonly top: number; readonly bottom: number; readonly cards: number }

export type Placed = { readonly agent: AgentNode; readonly x: number; readonly y: number; readonly row: Row }

const CARD_WIDTH = 224
const WIDTH = 260
const GAP_BETWEEN_ROWS = 70
const HEAD_HEIGHT = 84
const TOOL_HEIGHT = 22
/** Lines go straight on above a card, where arrows arrive. */
const STRAIGHT = 8
/** A layer of more agents takes several rows: of a wider graph, nobody would see more than a part. */
const MAX_CARDS = 8

/** How high a card is about, which says where the next row begins. */
const heightOf = ({ data }: AgentNode): number => HEAD_HEIGHT + Math.min(6, data.tools.length) * TOOL_HEIGHT

/** Agents in layers by their distance from the entry points, each row of a layer centred. */
export function layOut(metadata: AgencyMetadata): Placed[] {
  const agents = agentsOf(metadata)
  const depth = depthsOf(metadata)
  const layers = Map.groupBy(agents, ({ id }) => depth.get(id) ?? 0)
  const placed: Placed[] = []
  let top = 0
  for (const at of [...layers.keys()].toSorted((a, b) => a - b)) {
    for (const cards of rowsOf(layers.get(at)!)) {
      const row = { top, bottom: top + Math.max(...cards.map(heightOf)), cards: cards.length }
      cards.forEach((agent, index) => placed.push({ agent, x: placeOf(index, row), y: top, row }))
      top = row.bottom + GAP_BETWEEN_ROWS
    }
  }
  return placed
}

/** As few rows as there can be, of about as many agents each. */
function rowsOf(layer: readonly AgentNode[]): AgentNode[][] {
  const size = Math.ceil(layer.length / Math.ceil(layer.length / MAX_CARDS))
  return [...Map.groupBy(layer, (_, index) => Math.floor(index / size)).keys()].map((row) =>
    layer.slice(row * size, (row + 1) * size),
  )
}

const placeOf = (index: number, { cards }: Row): number => (index - (cards - 1) / 2) * WIDTH

/** How many places two cards of a row are apart: 1 to the neighbour at the right. */
export const stepsBetween = (from: Placed, to: Placed): number => (to.x - from.x) / WIDTH

/** Where a line passes a row: between two of its cards, or beside them. */
type Passage = { readonly x: number; readonly from: number; readonly to: number }

/** The way of a line from one row to another: how far it goes straight on at both ends, and where it passes the rows between them. */
export type WayThrough = { readonly leaves: number; readonly passages: readonly Passage[]; readonly arrives: number }

export function wayBetween(source: Placed, target: Placed, placed: readonly Placed[]): WayThrough {
  const rows = [...new Set(placed.map(({ row }) => row))]
  const [from, to] = [rows.indexOf(source.row), rows.indexOf(target.row)]
  if (from < to) {
    const passages = rows
      .slice(from + 1, to)
      .map((row) => ({ x: gapOf(row, source, -1), from: row.top, to: row.bottom }))
    return { leaves: source.row.bottom, passages, arrives: target.row.top - STRAIGHT }
  }
  const passed = rows.slice(to + 1, from).toReversed()
  const passages = passed.map((row) => ({ x: gapOf(row, source, 1), from: row.bottom, to: row.top }))
  return { leaves: source.row.top - STRAIGHT, passages, arrives: target.row.bottom }
}

/** The middle of the gap of a row that is nearest to a card, and beside it lines down (-1) and up (1). */
function gapOf(row: Row, { x }: Placed, side: 1 | -1): number {
  const gap = Math.round(x / WIDTH + row.cards / 2)
  return placeOf(Math.max(0, Math.min(row.cards, gap)), row) - (WIDTH - CARD_WIDTH) / 2 + side * 5
}

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
