import type { RecentRunDetail } from '@bureau/protocol'
import { useQueries } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { recentRunQuery } from '../server/run-queries.ts'
import { Status } from '../ui/badge.tsx'
import { dollars, duration, textOf, whole } from '../ui/format.ts'
import { Page, UnreadPage } from '../ui/page.tsx'
import { StepDetail } from './step-detail.tsx'
import { Timeline } from './timeline.tsx'

const route = getRouteApi('/server/runs/$run/compare/$other')

/** Two runs beside each other: what differs, then the steps of each. */
export function ComparePage() {
  const { run, other } = route.useParams()
  const [first, second] = useQueries({ queries: [recentRunQuery(run), recentRunQuery(other)] })
  if (!first.data) return <UnreadPage title="Two runs" of={first} />
  if (!second.data) return <UnreadPage title="Two runs" of={second} />
  const runs = [first.data, second.data] as const
  return (
    <Page
      title="Two runs"
      about={
        <Link to="/runs" className="link">
          Runs
        </Link>
      }
      of={first.error ? first : second}
    >
      <Facts runs={runs} />
      <div className="mt-4 grid gap-4 lg:grid-cols-2">
        {runs.map((each) => (
          <Steps key={each.run_id} run={each} />
        ))}
      </div>
    </Page>
  )
}

type Fact = {
  readonly name: string
  readonly of: (run: RecentRunDetail) => string
  readonly show?: (run: RecentRunDetail) => ReactNode
}

const FACTS: readonly Fact[] = [
  {
    name: 'Run',
    of: ({ run_id: id }) => id,
    show: ({ run_id: run }) => (
      <Link to="/runs/$run" params={{ run }} className="font-mono text-xs link">
        {run}
      </Link>
    ),
  },
  { name: 'Message', of: ({ message }) => message },
  { name: 'Agent', of: ({ agency, agent }) => `${agency} / ${agent}` },
  { name: 'Status', of: ({ status }) => status, show: ({ status }) => <Status of={status} /> },
  { name: 'Took', of: ({ duration_ms: ms }) => (ms === null ? '…' : duration(ms)) },
  { name: 'Models', of: ({ steps }) => namesOf(steps, 'model') },
  { name: 'Tools', of: ({ steps }) => namesOf(steps, 'tool') },
  { name: 'Tokens', of: ({ usage }) => (usage ? whole(usage.total_tokens) : '–') },
  { name: 'Cost', of: ({ usage }) => (usage ? dollars(usage.total_cost) : '–') },
  { name: 'Error', of: ({ error, failure }) => failure ?? error?.message ?? '–' },
  { name: 'Answer', of: answerOf },
]

function Facts({ runs }: { readonly runs: readonly [RecentRunDetail, RecentRunDetail] }) {
  return (
    <div tabIndex={0} role="region" aria-label="What differs" className="card overflow-x-auto">
      <table className="w-full text-[13px]">
        <thead className="sr-only">
          <tr>
            <th scope="col">Of the run</th>
            <th scope="col">First</th>
            <th scope="col">Second</th>
          </tr>
        </thead>
        <tbody>
          {FACTS.map(({ name, of, show = of }) => {
            const differs = name !== 'Run' && of(runs[0]) !== of(runs[1])
            return (
              <tr key={name} data-differs={differs} className={`align-top ${differs ? 'bg-warn-soft' : ''}`}>
                <th scope="row" className="w-24 px-3 py-1.5 text-left text-xs font-medium text-soft">
                  {name}
                  {differs && <span className="sr-only"> differs</span>}
                </th>
                {runs.map((run) => (
                  <td key={run.run_id} className="w-1/2 px-3 py-1.5 whitespace-pre-wrap [overflow-wrap:anywhere]">
                    {show(run)}
                  </td>
                ))}
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

function Steps({ run }: { readonly run: RecentRunDetail }) {
  const [open, setOpen] = useState<number>()
  const step = run.steps.find(({ id }) => id === open)
  return (
    <div className="flex min-w-0 flex-col gap-3">
      <Timeline run={run} open={open} setOpen={setOpen} />
      {step && <StepDetail step={step} onClose={() => setOpen(undefined)} />}
    </div>
  )
}

const namesOf = (steps: RecentRunDetail['steps'], kind: 'model' | 'tool'): string =>
  steps
    .filter((step) => step.kind === kind)
    .map(({ name }) => name)
    .join(', ') || '–'

/** What the user was answered. */
function answerOf({ new_messages: messages }: RecentRunDetail): string {
  const said = messages?.filter(
    ({ type, role, callerAgent }) => type === 'message' && role === 'assistant' && !callerAgent,
  )
  return said?.map(({ content }) => textOf(content)).join('\n') || '–'
}
