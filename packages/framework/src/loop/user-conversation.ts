import { type Message, withoutMetadata } from '@bureau/protocol'
import { storage } from '../agency/agent.ts'
import { checkHistory, forModel, recipientReminder, userThread } from '../history/history.ts'
import { answersToLeftCalls } from '../history/left-calls.ts'
import { RunFailed } from '../run/run-errors.ts'
import { inputItems } from '../run/run-input.ts'
import type { Run } from '../run/run.ts'
import { openHalves } from '../run/run-state.ts'
import { Conversation } from './conversation.ts'
import { runConversation } from './run-conversation.ts'

/**
 * The conversation with the user, with all that the request says; as far as another process has come, if one has begun.
 *
 * @throws RunFailed the agency has no longer an agent that takes part. HistoryError
 */
export function openUserConversation(run: Run, agent: string): Conversation {
  const { input } = run
  const { agents } = run.agency
  const known = Object.values(run.state.conversations)
  if (!known.every((each) => agents.has(each.addressed) && agents.has(each.agent)))
    throw new RunFailed('agency_changed')
  checkHistory(input.history)
  const thread: Message[] = userThread(input.history)
  const next = inputItems(input)
  const resume = known.find(({ parent }) => parent === null)
  const left = resume ? [] : answersToLeftCalls(thread, next)
  const answers = [...next, ...left, ...openHalves(resume)]
  const conversation = new Conversation(run, {
    agent,
    converse: runConversation,
    additionalInstructions: input.additionalInstructions,
    history: forModel(thread, { ...storage(agents.get(agent)!), next: answers }).map(withoutMetadata),
    // What the user has said since has not been checked.
    resume: resume && run.continuesAnother && next.length > 0 ? { ...resume, input_checked: false } : resume,
  })
  if (run.continuesAnother) {
    conversation.restore()
    conversation.later.push(...(input.attachmentSources ? [input.attachmentSources] : []), ...next)
    return conversation
  }
  const reminder = recipientReminder(thread, agents.get(agent)!)
  if (left.length > 0) conversation.give(left)
  if (input.attachmentSources) conversation.give([input.attachmentSources])
  if (reminder) conversation.give([reminder], 'recipient_reminder')
  conversation.give(next)
  run.restoreMessages()
  conversation.restore()
  return conversation
}
