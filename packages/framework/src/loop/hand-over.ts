import type { EventSource, WireItem } from '@bureau/protocol'
import { CallbackFailed, callBack } from '../agency/callback.ts'
import { type AgencyHandoff, HandoffInputError } from '../agency/handoff.ts'
import { invalidAnswer } from '../models/model-error.ts'
import { inCallOrder, type InputPart, withRange } from '../run/run-state.ts'
import type { Conversation } from './conversation.ts'
import { toolOutputCreated } from './item-events.ts'
import type { PreparedTurn } from './prepare-turn.ts'
import { argumentsOf } from './read-response.ts'
import { functionOutput, systemNote } from './turn-items.ts'

type Chosen = { readonly call: WireItem; readonly handoff: AgencyHandoff }

/**
 * Ends the turn with a hand-over. Of several the first in the model's order counts; the others are answered as not
 * carried out. The hand-over is committed before it is shown.
 *
 * @throws ModelError the model's input does not fit the handoff.
 * @throws CallbackFailed the handoff's own code fails.
 */
export async function handOver(
  conversation: Conversation,
  turn: PreparedTurn,
  [first, ...others]: readonly Chosen[],
): Promise<void> {
  const { call, handoff } = first!
  const { agent } = handoff
  const { source } = conversation
  // Its output is there when another process has got this far.
  if (!conversation.turn.outputOf(call)) {
    // Its own code is called once at most: it is not called again when another process had begun to.
    if (!conversation.wasStarted(call)) await invoke(handoff, turn.context, argumentsOf(call))
    answerCalls(conversation, turn, { call, to: agent.name, others: others.map((other) => other.call) })
  }
  const input = handoff.inputFilter && (await filteredInput(conversation, turn, handoff))
  const outputs = [call, ...others.map((other) => other.call)].map((each) => conversation.turn.outputOf(each)!)
  conversation.moveTo(agent.name)
  conversation.endTurn()
  if (input) conversation.advance({ type: 'input.chosen', input: inputParts(conversation.items, input) })
  conversation.advance({ type: 'turn.ended' })
  await conversation.run.commit()
  show(conversation, source, { call, outputs })
}

type HandedOver = { readonly call: WireItem; readonly outputs: readonly WireItem[] }

function show(
  conversation: Conversation,
  source: EventSource,
  { call, outputs: [output, ...refusals] }: HandedOver,
): void {
  const { run } = conversation
  const agent = { name: source.agent }
  const requested = { type: 'handoff_call_item', agent, raw_item: call }
  run.emit({ type: 'item.created', source, name: 'handoff_requested', item: requested })
  for (const refusal of refusals) run.emit(toolOutputCreated(refusal, source))
  const target = { source_agent: agent, target_agent: { name: conversation.agent } }
  const accepted = { type: 'handoff_output_item', agent, raw_item: output!, ...target }
  run.emit({ type: 'item.created', source: conversation.source, name: 'handoff_occured', item: accepted })
  conversation.announceAgent()
}

type Answered = { readonly call: WireItem; readonly to: string; readonly others: readonly WireItem[] }

function answerCalls(conversation: Conversation, { agent }: PreparedTurn, { call, to, others }: Answered): void {
  conversation.callReturned(call, functionOutput(call, JSON.stringify({ assistant: to })))
  for (const other of others) {
    const refusal = `Not carried out: the conversation was already handed over to ${to} in this turn.`
    conversation.callReturned(other, functionOutput(other, refusal))
  }
  conversation.add(systemNote(agent.handoffReminder ?? noteTo(to)), 'handoff_reminder')
}

/** What the next agent sees of the conversation. @throws CallbackFailed the filter throws, or returns something else. */
async function filteredInput(
  conversation: Conversation,
  { context }: PreparedTurn,
  { agent, inputFilter }: AgencyHandoff,
): Promise<WireItem[]> {
  const { input } = conversation
  const turn = inCallOrder(conversation.turn.items, conversation.state.calls).map(({ item }) => item)
  const produced = new Set(conversation.produced)
  return callBack(`the inputFilter of the handoff to "${agent.name}"`, async () => {
    const kept = await inputFilter!({
      inputHistory: input.filter((item) => !produced.has(item)),
      preHandoffItems: input.filter((item) => produced.has(item)),
      newItems: turn.slice(0, -1),
      runContext: context,
    })
    // The note that another agent is in control now is not the filter's to take away.
    return [...kept.inputHistory, ...kept.preHandoffItems, ...kept.newItems, ...turn.slice(-1)]
  })
}

/** Items that were kept are kept by their places. */
function inputParts(items: readonly WireItem[], chosen: readonly WireItem[]): InputPart[] {
  const places = new Map(items.map((item, place) => [item, place]))
  let parts: InputPart[] = []
  for (const item of chosen) {
    const place = places.get(item)
    parts = place === undefined ? [...parts, item] : withRange(parts, place, place + 1)
  }
  return parts
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
    if (isInput) throw invalidAnswer('the input of a handoff is not valid', cause)
    throw new CallbackFailed(`onHandoff of the handoff to "${handoff.agent.name}"`, cause)
  }
}
