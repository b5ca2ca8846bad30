import type { Client, Run } from '@bureau/client'
import type { CallDecision } from '../server/approvals.ts'
import { bodyOf, type Chat, waitsFor } from './chat.ts'

/** Decides on a call of a run that this page follows. Resolves with the run that goes on, once all calls are decided on. */
export function decideOn(run: Run, callId: string, { approve, reason, edited }: CallDecision): Promise<Run | null> {
  if (!approve) return run.reject(callId, reason)
  return run.approve(callId, { ...(reason && { reason }), ...(edited && { arguments: edited }) })
}

/** Decisions on calls of a run that the server may have forgotten: what they need to go on is in the chat. */
export class Decisions {
  /** Until all are decided on. */
  #decided: readonly object[] = []

  clear(): void {
    this.#decided = []
  }

  /**
   * Resolves with the run that goes on, once all calls of the last turn are decided on.
   *
   * @throws BureauError what is refused is not decided.
   */
  async decide(client: Client, chat: Chat, decision: CallDecision & { readonly callId: string }): Promise<Run | null> {
    const { id, options, agent, turns } = chat
    const { callId, approve, reason, edited } = decision
    const part = turns.at(-1)?.parts.find((each) => each.id === callId)
    const token = part?.type === 'tool' ? part.approval?.token : undefined
    const approvals = [...this.#decided, { call_id: callId, approve, reason, arguments: edited, token }]
    if (waitsFor(turns.at(-1)) !== callId) {
      this.#decided = approvals
      return null
    }
    const body: object = { ...bodyOf(options), recipient_agent: agent, approvals }
    // A run that goes on after an approval has no message of its own.
    const message = undefined as unknown as string
    const run = client.stream({ chat: id, message, body })
    await run.started
    this.clear()
    return run
  }
}
