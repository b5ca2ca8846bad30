/** What the server holds at one moment, after garbage collection. */
export type Sample = {
  readonly heapBytes: number
  readonly residentBytes: number
  /** Living objects by kind, and open handles. */
  readonly counts: Readonly<Record<string, number>>
  /** Unhandled rejections, uncaught exceptions and warnings so far. */
  readonly problems: readonly string[]
}

const MIB = 1_048_576

/** What may differ between two moments of rest. Caches fill, and the engine keeps a few objects of its own. */
const HEAP_TOLERANCE_BYTES = 8 * MIB
const COUNT_TOLERANCE = 10

/** What the server has not given back. */
export function leaks(before: Sample, after: Sample): string[] {
  const found = Object.entries(after.counts).flatMap(([kind, count]) => {
    const more = count - (before.counts[kind] ?? 0)
    return more > COUNT_TOLERANCE ? [`${more} more ${kind} than at the start`] : []
  })
  const grown = after.heapBytes - before.heapBytes
  if (grown > HEAP_TOLERANCE_BYTES) found.push(`${(grown / MIB).toFixed(1)} MB more heap than at the start`)
  return [...found, ...after.problems]
}

/** Start, peak and end as Markdown. */
export function sampleTable(before: Sample, peakResidentBytes: number, after: Sample): string[] {
  const mb = (bytes: number): string => `${(bytes / MIB).toFixed(1)} MB`
  return [
    '| | at the start | most | at the end |',
    '|---|---|---|---|',
    `| heap after garbage collection | ${mb(before.heapBytes)} | - | ${mb(after.heapBytes)} |`,
    `| resident memory | ${mb(before.residentBytes)} | ${mb(peakResidentBytes)} | ${mb(after.residentBytes)} |`,
    ...Object.keys(after.counts).map((kind) => `| ${kind} | ${before.counts[kind]} | - | ${after.counts[kind]} |`),
  ]
}
