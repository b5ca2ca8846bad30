import type { WireItem } from '@bureau/protocol'
import type { AgencyHandoff } from '../agency/handoff.ts'
import { HandoffInputError } from '../agency/handoff.ts'
import { ModelError } from '../models/model-error.ts'
import { RunFailed } from '../run/run-errors.ts'
import type { Conversation } from './conversation.ts'
import type { PreparedTurn } from './prepare-turn.ts'
import { argumentsOf } from './read-response.ts'

type Chosen = { readonly call: WireItem; readonly handoff: AgencyHandoff }

/**
 * Ends the turn with a hand-over. Of several the first in the model's order counts.
 *
 * @throws ModelError the model's input does not fit the handoff.
 * @throws RunFailed the handoff's own code fails.
 */
export async function handOver(
  conversation: Conversation,
  { context, agent }: PreparedTurn,
  [first, ...others]: readonly Chosen[],
): Promise<void> {
  const { call, handoff } = first!
  await invoke(handoff, context, argumentsOf(call))
  const input = conversation.input
  const turnBegins = conversation.items.length
  conversation.handOver(call, {
    to: handoff.agent.name,
    others: others.map((other) => other.call),
    note: agent.handoffReminder ?? noteTo(handoff.agent.name),
  })
  conversation.endTurn()
  if (!handoff.inputFilter) return
  const produced = new Set(conversation.produced)
  const turn = conversation.items.slice(turnBegins)
  const kept = await handoff.inputFilter({
    inputHistory: input.filter((item) => !produced.has(item)),
    preHandoffItems: input.filter((item) => produced.has(item)),
    newItems: turn.slice(0, -1),
    runContext: context,
  })
  // The note that another agent is in control now is not the filter's to take away.
  conversation.chooseInput([...kept.inputHistory, ...kept.preHandoffItems, ...kept.newItems, ...turn.slice(-1)])
}

/** The note to the next agent, where the agent before it has none of its own. */
function noteTo(name: string): string {
  return `The handoff is complete: you are ${name} now and answer the user directly.`
}

async function invoke(handoff: AgencyHandoff, context: PreparedTurn['context'], argumentsText: string): Promise<void> {
  try {
    await handoff.invoke(context, argumentsText)
  } catch (cause) {
    // The SDK's own handoffs say by this name that the model's input is wrong.
    const isInput =
      cause instanceof HandoffInputError || (cause as Error | null)?.constructor.name === 'ModelBehaviorError'
    if (isInput)
      throw new ModelError('upstream_invalid_response', { detail: 'the input of a handoff is not valid', cause })
    throw new RunFailed('run_failed', { cause })
  }
}
