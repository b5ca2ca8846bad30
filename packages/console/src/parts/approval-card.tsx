import type { ApprovalRequest } from '@bureau/protocol'
import { createContext, useContext, useState } from 'react'
import type { Decide } from '../server/approvals.ts'
import { Button } from '../ui/button.tsx'
import { brief, moment, parsed, pretty } from '../ui/format.ts'
import { Icon } from '../ui/icons.tsx'
import { JsonBlock } from '../ui/json-view.tsx'
import { failedToast, showToast } from '../ui/toasts.tsx'

const NAME_LENGTH = 80

/** Who decides on the calls that are shown; undefined: here nobody can. */
export const DecideContext = createContext<Decide | undefined>(undefined)

type CardProps = {
  readonly approval: Omit<ApprovalRequest, 'agent_run_id'>
  /** Of which run it is, where there are several. Default: its arguments tell it from others. */
  readonly about?: string
}

/** A call that waits until a person has decided on it. */
export function ApprovalCard({ approval, about }: CardProps) {
  const decide = useContext(DecideContext)
  const [edited, setEdited] = useState<string>()
  const [reason, setReason] = useState('')
  const [busy, setBusy] = useState(false)
  const answer = (approve: boolean): void => {
    setBusy(true)
    const decision = { approve, ...(reason !== '' && { reason }), ...(approve && edited !== undefined && { edited }) }
    decide?.(approval.call_id, decision)
      .then(() => showToast(approve ? 'Approved' : 'Rejected'))
      .catch(failedToast) // The card may be gone: somebody else has decided.
      .finally(() => setBusy(false))
  }
  const isUsable = edited === undefined || isObject(parsed(edited))
  return (
    <section
      data-item
      tabIndex={-1}
      aria-label={`Approval of ${approval.tool}, ${about ?? brief(approval.arguments, NAME_LENGTH)}`}
      className="flex flex-col gap-2.5 rounded-xl border border-warn/50 bg-warn-soft px-3.5 py-3 text-[13px]"
    >
      <div className="flex items-start gap-2">
        <Icon name="clock" className="mt-0.5 shrink-0 text-warn" />
        <p className="flex min-w-0 flex-wrap items-baseline gap-x-2 wrap-anywhere">
          <span className="font-semibold">
            {approval.agent} wants to use <code className="font-mono text-xs">{approval.tool}</code>
          </span>
          <span className="text-xs text-soft">Counts as rejected after {moment(approval.expires_at)}</span>
        </p>
      </div>
      <Arguments given={approval.arguments} edited={edited} edit={setEdited} />
      {!isUsable && (
        <p role="alert" className="text-xs text-bad">
          It must be a JSON object.
        </p>
      )}
      <input
        aria-label="Reason"
        className="input"
        placeholder="Reason, which the model reads"
        value={reason}
        onChange={(event) => setReason(event.target.value)}
      />
      <div className="flex flex-wrap gap-2">
        <Button look="primary" icon="check" disabled={busy || !decide || !isUsable} onClick={() => answer(true)}>
          {edited === undefined ? 'Approve' : 'Approve these'}
        </Button>
        <Button look="danger" icon="close" disabled={busy || !decide} onClick={() => answer(false)}>
          Reject
        </Button>
        {approval.edit && edited === undefined && (
          <Button icon="edit" disabled={busy} onClick={() => setEdited(pretty(parsed(approval.arguments)))}>
            Edit
          </Button>
        )}
      </div>
    </section>
  )
}

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value)

type ArgumentsProps = {
  readonly given: string
  /** Undefined: they stay as they are. */
  readonly edited: string | undefined
  readonly edit: (text: string) => void
}

function Arguments({ given, edited, edit }: ArgumentsProps) {
  if (edited === undefined) return <JsonBlock label="Arguments" value={parsed(given)} />
  return (
    <textarea
      aria-label="Other arguments"
      rows={5}
      className="input font-mono text-xs"
      value={edited}
      onChange={(event) => edit(event.target.value)}
    />
  )
}
