import type { PlatformRun, RunApproval } from '@bureau/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { ApprovalCard, DecideContext } from '../parts/approval-card.tsx'
import { IntegrationName } from '../parts/integrations.tsx'
import { approvalsQuery, useDecide } from '../server/approvals.ts'
import { moment } from '../ui/format.ts'
import { Icon } from '../ui/icons.tsx'
import { Unread } from '../ui/page.tsx'

/** As many are opened by themselves: of more, what is asked is read once somebody opens one. */
const MAX_OPEN = 5

type Props = { readonly runs: readonly PlatformRun[]; readonly isCut: boolean }

/** Runs of the platform that wait: decided on here, whoever began them. */
export function PlatformRuns({ runs, isCut }: Props) {
  return (
    <section>
      <h2 className="font-semibold">Runs of the platform that wait</h2>
      <ul aria-label="Runs of the platform that wait" className="mt-2 flex flex-col gap-2">
        {runs.map((run) => (
          <WaitingRun key={run.runId} run={run} isOpen={runs.length <= MAX_OPEN} />
        ))}
      </ul>
      {isCut && <p className="mt-2 text-[13px] text-soft">There are more: they follow once these are decided on.</p>}
    </section>
  )
}

function WaitingRun({ run, isOpen }: { readonly run: PlatformRun; readonly isOpen: boolean }) {
  const [open, setOpen] = useState(isOpen)
  return (
    <li className="card">
      <details open={open} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary
          data-item={open ? undefined : true}
          className="flex min-h-12 flex-wrap items-center gap-x-3 rounded-xl px-4 py-2 hover:bg-hover"
        >
          <Icon name="chevron" className={`text-soft transition-transform ${open ? 'rotate-90' : ''}`} />
          <span className="max-w-full truncate font-medium sm:max-w-sm">{run.message || run.agent}</span>
          {run.message && <span className="text-[13px]">{run.agent}</span>}
          <span className="text-[13px] text-soft">
            <IntegrationName id={run.apiIntegrationId} />
          </span>
          <span className="flex-1 truncate text-[13px]">{run.consumerId ?? ''}</span>
          <span className="text-[13px] text-soft">{moment(run.createdAt)}</span>
        </summary>
        {open && <Calls run={run} />}
      </details>
    </li>
  )
}

function Calls({ run }: { readonly run: PlatformRun }) {
  const approvals = useQuery(approvalsQuery(run.runId))
  const decide = useDecide(run.runId)
  const about = [run.consumerId, run.message].filter(Boolean).join(': ')
  return (
    <div className="flex flex-col gap-3 border-t border-line p-4">
      <Unread of={approvals} />
      <DecideContext value={decide}>
        {approvals.data
          ?.filter(({ decision }) => decision === null)
          .map((each) => (
            <ApprovalCard key={each.callId} approval={requestOf(each)} {...(about && { about })} />
          ))}
      </DecideContext>
      <Link to="/platform/runs/$run" params={{ run: run.runId }} className="text-[13px] link">
        What led to it
      </Link>
    </div>
  )
}

const requestOf = ({ callId, expiresAt, ...call }: RunApproval) => ({
  ...call,
  call_id: callId,
  expires_at: expiresAt,
})
