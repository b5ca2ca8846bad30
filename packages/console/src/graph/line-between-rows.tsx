import { BaseEdge, type Edge, type EdgeProps } from '@xyflow/react'
import type { WayThrough } from './layout.ts'

export type LineBetweenRows = Edge<WayThrough, 'betweenRows'>

/** A line to a card of another row. It turns aside only between two rows, so that it never runs behind a card. */
export function LineBetweenRows(line: EdgeProps<LineBetweenRows>) {
  const { sourceX, sourceY, targetX, targetY, data, style, markerEnd } = line
  const { leaves, passages, arrives } = data!
  let [x, y] = [sourceX, leaves]
  let path = `M${x} ${sourceY}V${y}`
  for (const next of [...passages, { x: targetX, from: arrives, to: targetY }]) {
    const middle = (y + next.from) / 2
    path += `C${x} ${middle} ${next.x} ${middle} ${next.x} ${next.from}V${next.to}`
    ;[x, y] = [next.x, next.to]
  }
  return <BaseEdge path={path} {...(style && { style })} {...(markerEnd && { markerEnd })} />
}
