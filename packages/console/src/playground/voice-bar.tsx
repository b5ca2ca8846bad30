import { useEffect, useRef, useState } from 'react'
import type { ChatSession } from '../chats/chat-session.ts'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { spokenTurns } from './spoken-turns.ts'
import { type SpokenApproval, startVoice, type VoiceSession } from './voice-session.ts'

type Props = {
  readonly session: ChatSession
  /** The entry agent, which is the one that speaks. */
  readonly agent: string | null
  readonly onClose: () => void
}

/** A conversation by voice, in place of the field for messages. The chat keeps a transcript. */
export function VoiceBar({ session, agent, onClose }: Props) {
  const [state, setState] = useState<'connecting' | 'open' | 'over'>('connecting')
  const [problem, setProblem] = useState<string>()
  const [approvals, setApprovals] = useState<readonly SpokenApproval[]>([])
  const voice = useRef<VoiceSession>(undefined)
  useEffect(() => {
    const startedAt = Date.now()
    const spoken = session.talk()
    voice.current = startVoice(session.view.chat.agency, {
      opened: () => setState('open'),
      said: (history) => spoken.show(spokenTurns(history, agent, startedAt)),
      asked: (approval) => setApprovals((before) => [...before, approval]),
      failed: setProblem,
      ended: (why) => {
        spoken.end()
        setState('over')
        if (why === null) onClose()
        else setProblem(why)
      },
    })
    return () => voice.current?.stop()
  }, [session])
  const decide = (approval: SpokenApproval, approve: boolean): void => {
    voice.current?.decide(approval.call_id, approve)
    setApprovals((before) => before.filter((each) => each !== approval))
  }
  return (
    <div className="card mx-auto flex w-full max-w-3xl flex-col gap-2 p-3 shadow-sm">
      {problem !== undefined && (
        <p role="alert" className="rounded-lg bg-bad-soft px-3 py-2 text-[13px] text-bad">
          {problem}
        </p>
      )}
      <Approvals approvals={approvals} decide={decide} />
      <div className="flex items-center gap-2">
        <p role="status" className="flex flex-1 items-center gap-2 text-[13px] text-soft">
          <Icon name="microphone" className={state === 'open' ? 'blink text-accent' : ''} />
          {STATES[state]}
        </p>
        {state === 'over' ? (
          <Button onClick={onClose}>Back to writing</Button>
        ) : (
          <Button icon="stop" look="danger" onClick={() => voice.current?.stop()}>
            Stop talking
          </Button>
        )}
      </div>
    </div>
  )
}

const STATES = {
  connecting: 'Connecting …',
  open: 'Listening: speak, and interrupt whenever you like.',
  over: 'The conversation is over.',
}

type ApprovalsProps = {
  readonly approvals: readonly SpokenApproval[]
  readonly decide: (approval: SpokenApproval, approve: boolean) => void
}

function Approvals({ approvals, decide }: ApprovalsProps) {
  return approvals.map((approval) => (
    <div key={approval.call_id} className="flex flex-wrap items-center gap-2 text-[13px]">
      <p className="min-w-0 flex-1">
        {approval.agent} wants to use <code>{approval.tool}</code>{' '}
        <code className="text-xs text-soft [overflow-wrap:anywhere]">{approval.arguments}</code>
      </p>
      <Button look="primary" onClick={() => decide(approval, true)}>
        Approve
      </Button>
      <Button onClick={() => decide(approval, false)}>Reject</Button>
    </div>
  ))
}
