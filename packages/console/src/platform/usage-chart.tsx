import 'uplot/dist/uPlot.min.css'
import type { UsageSummary } from '@bureau/protocol'
import { useEffect, useMemo, useRef, useState } from 'react'
import UPlot from 'uplot'
import { Select } from '../ui/field.tsx'
import { dayOf, midnights, whole } from '../ui/format.ts'
import { useTheme } from '../ui/theme.ts'

type Row = UsageSummary['data'][number]

type Measure = 'cost' | 'runs' | 'tokens'

const COMPACT = new Intl.NumberFormat('en-US', { notation: 'compact' })
/** As many digits as tell one line of the chart from the next: most runs cost less than a cent. */
const MONEY = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', maximumFractionDigits: 10 })

const MEASURES: Readonly<
  Record<
    Measure,
    {
      readonly label: string
      readonly of: (row: Row) => number
      readonly shown: (value: number) => string
      /** There is no half of it. */
      readonly isWhole: boolean
    }
  >
> = {
  cost: {
    label: 'Cost',
    of: ({ usage }) => usage.total_cost,
    shown: (value) => MONEY.format(value),
    isWhole: false,
  },
  runs: { label: 'Runs', of: ({ runs }) => runs, shown: whole, isWhole: true },
  tokens: {
    label: 'Tokens',
    of: ({ usage }) => usage.total_tokens,
    shown: (value) => COMPACT.format(value),
    isWhole: true,
  },
}

type Props = { readonly rows: readonly Row[]; readonly from: string; readonly to: string }

const HEIGHT = 220

/** What was spent on each day, as bars. The table below it says the same. */
export function UsageChart({ rows, from, to }: Props) {
  const [measure, setMeasure] = useState<Measure>(rows.some(({ usage }) => usage.total_cost > 0) ? 'cost' : 'runs')
  const place = useRef<HTMLDivElement>(null)
  const theme = useTheme()
  const data = useMemo(() => dataOf(rows, { from, to }, MEASURES[measure].of), [rows, from, to, measure])
  useEffect(() => {
    const { current } = place
    if (!current) return undefined
    const chart = new UPlot(optionsOf(current, MEASURES[measure]), data, current)
    const watch = new ResizeObserver(() => chart.setSize({ width: current.clientWidth, height: HEIGHT }))
    watch.observe(current)
    return () => {
      watch.disconnect()
      chart.destroy()
    }
  }, [data, measure, theme])
  return (
    <figure className="card p-3">
      <figcaption className="mb-2 flex items-center justify-between text-[13px] font-medium">
        By day
        <Select
          label="Measure"
          value={measure}
          choices={Object.entries(MEASURES).map(([value, { label }]) => ({ value, label }))}
          onPick={(value) => setMeasure(value as Measure)}
        />
      </figcaption>
      <div
        ref={place}
        role="img"
        aria-label={`${MEASURES[measure].label} by day. The table below has the numbers.`}
        className="w-full overflow-hidden"
      />
    </figure>
  )
}

const DAY_MS = 86_400_000

/** Days without a run are there, too. */
function dataOf(
  rows: readonly Row[],
  { from, to }: Pick<Props, 'from' | 'to'>,
  of: (row: Row) => number,
): UPlot.AlignedData {
  const known = new Map(rows.map((row) => [row.key, of(row)]))
  const days = midnights(from, to)
  const keyOf = (date: Date): string =>
    [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, '0')).join('-')
  return [days.map((date) => date.getTime() / 1_000), days.map((date) => known.get(keyOf(date)) ?? null)]
}

function optionsOf(place: HTMLElement, { label, shown, isWhole }: (typeof MEASURES)[Measure]): UPlot.Options {
  const soft = colorOf(place, '--color-soft')
  const grid = { stroke: colorOf(place, '--color-line'), width: 1 }
  const accent = colorOf(place, '--color-accent')
  return {
    width: place.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: {
      // Half a day at both ends, so that the first and the last bar are whole.
      x: { range: (_, min, max) => [min - DAY_MS / 2_000, max + DAY_MS / 2_000] },
      y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] },
    },
    axes: [
      {
        stroke: soft,
        grid: { show: false },
        ticks: grid,
        space: 70,
        values: (_, values) => values.map((seconds) => dayOf(seconds * 1_000)),
      },
      {
        stroke: soft,
        grid,
        ticks: grid,
        size: 74,
        ...(isWhole && { incrs: WHOLE_STEPS }),
        values: (_, values) => values.map(shown),
      },
    ],
    series: [
      {},
      { label, stroke: accent, fill: accent, paths: UPlot.paths.bars!({ size: [0.6, 40] }), points: { show: false } },
    ],
  }
}

/** 1, 2, 5, 10 and so on. */
const WHOLE_STEPS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((times) => times * 10 ** power)).flat()

/** A canvas knows no custom properties: the browser works them out for an element. */
function colorOf(place: HTMLElement, name: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${name})`
  place.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
