import type { RecentRunDetail, RecentRunStep } from '@bureau/protocol'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { RunFacts, WhyFailed } from '../parts/run-facts.tsx'
import { useSessions } from '../chats/sessions.ts'
import { ask } from '../server/request.ts'
import { Status, Version } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Select } from '../ui/field.tsx'
import { brief, dollars, duration, moment, whole } from '../ui/format.ts'
import { JsonBlock } from '../ui/json-view.tsx'
import { Page, UnreadPage } from '../ui/page.tsx'
import { failedToast } from '../ui/toasts.tsx'
import { chatOfRun } from '../chats/chat-of-run.ts'
import { recentRunQuery, recentRunsQuery } from '../server/run-queries.ts'
import { saveFile } from '../ui/save-file.ts'
import { StepDetail } from './step-detail.tsx'
import { Timeline } from './timeline.tsx'

const route = getRouteApi('/server/runs/$run')

/** Of a longer message only the beginning: all of it is in the request. */
const TITLE_LENGTH = 160

/** One run: what it did, when, for how long, at what price. */
export function RunPage() {
  const { run: id } = route.useParams()
  const query = useQuery(recentRunQuery(id))
  const { data: run } = query
  const [step, setStep] = useState<number>()
  if (!run) return <UnreadPage title="Run" of={query} />
  const open = run.steps.find((each) => each.id === step)
  return (
    <Page
      title={brief(run.message || 'Run', TITLE_LENGTH)}
      about={<Breadcrumb run={run} />}
      actions={<Actions run={run} />}
      of={query}
    >
      <Facts run={run} />
      {run.error && (
        <div className="mt-4">
          <WhyFailed error={run.error} failure={run.failure} />
        </div>
      )}
      <div className="mt-4 grid gap-4 lg:grid-cols-[minmax(0,1fr)_minmax(0,22rem)]">
        <Timeline run={run} open={step} setOpen={setStep} />
        <div>
          {open ? <StepDetail step={open} onClose={() => setStep(undefined)} /> : <NothingOpen steps={run.steps} />}
        </div>
      </div>
      <Transcripts run={run} />
    </Page>
  )
}

function Breadcrumb({ run }: { readonly run: RecentRunDetail }) {
  return (
    <>
      <Link to="/runs" className="link">
        Runs
      </Link>{' '}
      / {run.agency} / {run.agent} / <code className="text-xs">{run.run_id}</code>
    </>
  )
}

function Facts({ run }: { readonly run: RecentRunDetail }) {
  const { usage } = run
  const facts: readonly (readonly [string, React.ReactNode])[] = [
    ['Status', <Status key="status" of={run.status} />],
    ['Began', moment(run.started_at)],
    ['Took', run.duration_ms === null ? '…' : duration(run.duration_ms)],
    ['Agency version', <Version key="version" of={run.agency_version} />],
    ['Model calls', run.model_calls],
    ['Tool calls', run.tool_calls],
    ['Tokens', usage ? `${whole(usage.input_tokens)} in, ${whole(usage.output_tokens)} out` : '–'],
    ['Cost', usage ? dollars(usage.total_cost) : '–'],
    ...(run.user_id === null ? [] : [['User', run.user_id] as const]),
  ]
  return <RunFacts facts={facts} />
}

function Actions({ run }: { readonly run: RecentRunDetail }) {
  const sessions = useSessions()
  const navigate = useNavigate()
  const openInPlayground = (): void => {
    const chat = chatOfRun(run)
    sessions.begin(chat)
    void navigate({ to: '/play/$agency', params: { agency: run.agency }, search: { chat: chat.id } })
  }
  const cancel = (): void =>
    void ask('server', `${encodeURIComponent(run.agency)}/cancel_response_stream`, {
      method: 'POST',
      body: { run_id: run.run_id },
    }).catch(failedToast)
  return (
    <>
      {run.status === 'running' && (
        <Button icon="stop" look="danger" onClick={cancel}>
          Cancel
        </Button>
      )}
      <CompareWith run={run} />
      <Button icon="download" onClick={() => saveFile(`run-${run.run_id}.json`, JSON.stringify(run, null, 2))}>
        Export
      </Button>
      <Button
        icon="chat"
        look="primary"
        disabled={run.request === null || run.status === 'running'}
        title={run.request === null ? 'What was sent was too long to keep' : undefined}
        onClick={openInPlayground}
      >
        Open in playground
      </Button>
    </>
  )
}

/** The other runs of the agency, to be seen beside this one. */
function CompareWith({ run }: { readonly run: RecentRunDetail }) {
  const navigate = useNavigate()
  const { data: runs = [] } = useQuery(recentRunsQuery({ agency: run.agency }))
  const others = runs.filter(({ run_id: id }) => id !== run.run_id)
  if (others.length === 0) return null
  const choices = others.map(({ run_id: id, message, started_at: at }) => {
    return { value: id, label: `${brief(message || '(files)', 40)}, ${moment(at)}` }
  })
  return (
    <Select
      label="Compare with"
      className="max-w-44!"
      value=""
      choices={[{ value: '', label: 'Compare with …' }, ...choices]}
      onPick={(other) => void navigate({ to: '/runs/$run/compare/$other', params: { run: run.run_id, other } })}
    />
  )
}

function NothingOpen({ steps }: { readonly steps: readonly RecentRunStep[] }) {
  const slowest = steps
    .filter(({ kind }) => kind !== 'agent')
    .toSorted((a, b) => (b.duration_ms ?? 0) - (a.duration_ms ?? 0))[0]
  return (
    <div className="card p-4 text-[13px] text-soft">
      <p>Pick a step to see what went in and what came out.</p>
      {slowest?.duration_ms != null && (
        <p className="mt-2">
          The slowest was <span className="font-mono text-xs text-ink">{slowest.name}</span>, with{' '}
          {duration(slowest.duration_ms)}.
        </p>
      )}
    </div>
  )
}

function Transcripts({ run }: { readonly run: RecentRunDetail }) {
  return (
    <div className="mt-4 grid gap-4 lg:grid-cols-2">
      {run.request && (
        <div className="card p-4">
          <JsonBlock label="Request" value={run.request} />
        </div>
      )}
      {run.new_messages && (
        <div className="card p-4">
          <JsonBlock label="New messages" value={run.new_messages} />
        </div>
      )}
    </div>
  )
}
