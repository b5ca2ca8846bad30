import { withoutMetadata } from '@bureau/protocol'
import { type Agent, storage } from '../agency/agent.ts'
import { CallSuspended } from '../agency/function-tool.ts'
import { Conversation } from './conversation.ts'
import { forModel, pairThread } from '../history/history.ts'
import { describeFailure } from '../run/run-failure.ts'
import { openedBy, openHalves } from '../run/run-state.ts'

/** Agents that ask each other in a circle are stopped here; each conversation has its own limit of turns besides. */
const MAX_DEPTH = 12

/** What one agent sends to another. */
export type AgentMessage = {
  /** The tool by which it is sent. */
  readonly tool: string
  readonly recipient: Agent
  readonly message: string
  readonly additionalInstructions: string
  readonly callId: string
  /** Aborts when nobody waits for the answer any more. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Runs one agent on another agent's message, as a conversation of its own within the same run.
 *
 * @returns The recipient's answer, or the sentence that tells the sender why there is none.
 */
export async function askAgent(sender: Conversation, request: AgentMessage): Promise<string> {
  const { recipient, message } = request
  if (sender.state.depth >= MAX_DEPTH) {
    return `Error: ${recipient.name} was not asked. Agents have already asked each other ${MAX_DEPTH} times in a row. Answer yourself.`
  }
  if (!sender.claimRecipient(recipient.name)) {
    return `Error: ${recipient.name} is still working on your previous message. Wait for its answer.`
  }
  const { callId } = request
  const before = openedBy(sender.run.state, sender.state.id, callId)
  const known = pairThread(sender.run.knownMessages(before?.opened_at), sender.agent, recipient.name)
  const nested = new Conversation(sender.run, {
    agent: recipient.name,
    converse: sender.converse,
    sender,
    parentRunId: callId,
    signal: request.signal,
    additionalInstructions: request.additionalInstructions,
    history: forModel(known, { ...storage(recipient), next: openHalves(before) }).map(withoutMetadata),
    resume: before,
  })
  nested.restore()
  try {
    if (before?.phase === 'answered') return before.outcome ?? ''
    if (before?.phase === 'failed') return failureText(recipient, before.outcome ?? '')
    if (!before) nested.receive([{ role: 'user', content: message }])
    return answerText(await nested.converse(nested))
  } catch (error) {
    nested.signal.throwIfAborted()
    if (error instanceof CallSuspended) throw error
    const failure = describeFailure(error)
    nested.toolFailed(request.tool, error)
    const { message: content, code } = failure
    nested.run.emit({ type: 'custom', source: nested.source, data: { type: 'error', content, code } })
    return failureText(recipient, failure.message)
  } finally {
    nested.endTurn()
    sender.releaseRecipient(recipient.name)
  }
}

/** An answer as another agent reads it. */
export function answerText(answer: unknown): string {
  return typeof answer === 'string' ? answer : JSON.stringify(answer)
}

function failureText({ name }: Agent, why: string): string {
  return `Error: ${name} could not answer. ${why}`
}
