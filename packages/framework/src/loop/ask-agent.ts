import { withoutMetadata } from '@bureau/protocol'
import { type Agent, storage } from '../agency/agent.ts'
import { Conversation } from './conversation.ts'
import { forModel, pairThread } from '../history/history.ts'
import { describeFailure } from '../run/run-failure.ts'

/** Agents that ask each other in a circle are stopped here; each conversation has its own limit of turns besides. */
const MAX_DEPTH = 12

/** What one agent sends to another. */
export type AgentMessage = {
  /** The tool by which it is sent. */
  readonly tool: string
  readonly recipient: Agent
  readonly message: string
  readonly additionalInstructions: string
  readonly callId?: string
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
  const nested = new Conversation(sender.run, {
    agent: recipient.name,
    converse: sender.converse,
    sender,
    ...(request.callId !== undefined && { parentRunId: request.callId }),
    additionalInstructions: request.additionalInstructions,
    history: forModel(pairThread(sender.run.knownMessages, sender.agent, recipient.name), storage(recipient)).map(
      withoutMetadata,
    ),
  })
  try {
    nested.receive([{ role: 'user', content: message }])
    const answer = await nested.converse(nested)
    return typeof answer === 'string' ? answer : JSON.stringify(answer)
  } catch (error) {
    sender.signal.throwIfAborted()
    const failure = describeFailure(error)
    nested.toolFailed(request.tool, error)
    nested.run.emit({ type: 'custom', source: nested.source, data: { type: 'error', content: failure.message } })
    return `Error: ${recipient.name} could not answer. ${failure.message}`
  } finally {
    nested.endTurn()
    sender.releaseRecipient(recipient.name)
  }
}
