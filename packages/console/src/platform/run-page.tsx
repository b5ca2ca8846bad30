import type { PlatformRun, RunApproval } from '@bureau/protocol'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type ReactNode, useMemo } from 'react'
import { DecideContext } from '../parts/approval-card.tsx'
import { IntegrationName } from '../parts/integrations.tsx'
import { PartRow, partRows, textOfPart } from '../parts/part-view.tsx'
import { RunFacts, WhyFailed } from '../parts/run-facts.tsx'
import { UserMessage } from '../parts/user-message.tsx'
import { approvalsQuery, useDecide } from '../server/approvals.ts'
import { FOLLOW_MS, isActive, platformRunQuery } from '../server/platform-run.ts'
import { ask } from '../server/request.ts'
import { Status, Version } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { dollars, duration, millisecondsBetween, moment, pretty, whole } from '../ui/format.ts'
import { Icon } from '../ui/icons.tsx'
import { LongList } from '../ui/long-list.tsx'
import { Page, UnreadPage } from '../ui/page.tsx'
import { saveFile } from '../ui/save-file.ts'
import { failedToast } from '../ui/toasts.tsx'
import { useChange } from './change.ts'
import { useFollowedParts } from './followed-run.ts'
import { useReproduce } from './reproduce.ts'

const route = getRouteApi('/platform/runs/$run')

/** What is longer is in the chat. */
const MESSAGE_LENGTH = 200

/** One run of the platform, while it goes on and afterwards. */
export function PlatformRunPage() {
  const { run: id } = route.useParams()
  const query = useQuery(platformRunQuery(id))
  const { data: run } = query
  if (!run) return <UnreadPage title="Run" of={query} />
  return (
    <Page title={`Run of ${run.agent}`} about={<About run={run} />} actions={<Actions run={run} />} of={query}>
      <Facts run={run} />
      {run.error && (
        <div className="mt-4">
          <WhyFailed error={run.error} />
        </div>
      )}
      <Conversation key={run.runId} run={run} />
    </Page>
  )
}

/** What the run has said, and the calls on which somebody has to decide. */
function Conversation({ run }: { readonly run: PlatformRun }) {
  const { data: approvals = [] } = useQuery({
    ...approvalsQuery(run.runId),
    refetchInterval: run.status === 'waiting' && FOLLOW_MS,
  })
  const decided = approvals.filter(({ decision }) => decision !== null)
  const { parts, failure } = useFollowedParts(run.apiIntegrationId, run.runId, `${run.status} ${decided.length}`)
  const decide = useDecide(run.runId)
  const rows = useMemo(() => partRows(parts, null), [parts])
  return (
    <>
      {decided.length > 0 && <Decisions approvals={decided} />}
      <section aria-label="Conversation" className="mx-auto mt-6 max-w-3xl">
        {run.message && (
          <div className="mb-4 ml-auto w-fit max-w-[85%]">
            <span className="sr-only">The user wrote: </span>
            <UserMessage text={run.message.length < MESSAGE_LENGTH ? run.message : `${run.message} …`} />
          </div>
        )}
        <DecideContext value={run.status === 'waiting' ? decide : undefined}>
          <LongList rows={rows} keyOf={({ part }) => part.id} textOf={({ part }) => textOfPart(part, parts)}>
            {(row) => (
              <div className="pb-2.5">
                <PartRow {...row} parts={parts} times={{}} />
              </div>
            )}
          </LongList>
        </DecideContext>
        {failure && parts.length === 0 && <p className="text-center text-[13px] text-soft">{failure}</p>}
      </section>
    </>
  )
}

function Decisions({ approvals }: { readonly approvals: readonly RunApproval[] }) {
  return (
    <ul aria-label="Decisions" className="card mt-4 flex flex-col gap-1 px-4 py-3 text-[13px]">
      {approvals.map(({ callId, tool, decision }) => (
        <li key={callId} className="flex flex-wrap items-center gap-x-2">
          <Icon name={decision?.approve ? 'check' : 'close'} className={decision?.approve ? 'text-good' : 'text-bad'} />
          <code className="font-mono text-xs">{tool}</code>
          {decision?.approve ? 'was approved' : 'was rejected'}
          {decision?.arguments != null && ' with other arguments'}
          {decision?.reason != null && <span>: {decision.reason}</span>}
          <span className="text-xs text-soft">
            by {decision?.decidedBy}, {decision && moment(decision.decidedAt)}
          </span>
        </li>
      ))}
    </ul>
  )
}

function About({ run }: { readonly run: PlatformRun }) {
  return (
    <>
      <Link to="/platform/runs" className="link">
        Runs
      </Link>{' '}
      / <IntegrationName id={run.apiIntegrationId} /> /{' '}
      <Link to="/platform/chats/$chat" params={{ chat: run.chatId }} className="link">
        Chat
      </Link>{' '}
      / <code className="text-xs">{run.runId}</code>
    </>
  )
}

function Facts({ run }: { readonly run: PlatformRun }) {
  const took = millisecondsBetween(run.startedAt, run.finishedAt)
  const facts: readonly (readonly [string, ReactNode])[] = [
    ['Status', <Status key="status" of={run.status} />],
    ['Began', moment(run.createdAt)],
    ['Took', took === null ? '…' : duration(took)],
    ['Agency version', <Version key="version" of={run.agencyVersion} />],
    ['Consumer', run.consumerId ?? '–'],
    ['Request', run.usageRequestId ?? '–'],
    ['Tokens', run.usage ? `${whole(run.usage.input_tokens)} in, ${whole(run.usage.output_tokens)} out` : '–'],
    ['Cost', run.usage ? dollars(run.usage.total_cost) : '–'],
  ]
  return <RunFacts facts={facts} />
}

function Actions({ run }: { readonly run: PlatformRun }) {
  const reproduce = useReproduce()
  const cancel = useChange(
    (mode: 'immediate' | 'after_turn') =>
      ask('platform', `v1/runs/${encodeURIComponent(run.runId)}/cancel`, {
        method: 'POST',
        body: { cancel_mode: mode, waitMs: 0 },
      }),
    'The run is being stopped',
  )
  return (
    <>
      {isActive(run) && (
        <>
          <Button icon="clock" onClick={() => cancel.mutate('after_turn')}>
            Stop after this turn
          </Button>
          <Button icon="stop" look="danger" onClick={() => cancel.mutate('immediate')}>
            Stop now
          </Button>
        </>
      )}
      <Button icon="download" onClick={() => saveFile(`run-${run.runId}.json`, pretty(run))}>
        Export
      </Button>
      <Button icon="chat" look="primary" onClick={() => void reproduce(run).catch(failedToast)}>
        Open in playground
      </Button>
    </>
  )
}
