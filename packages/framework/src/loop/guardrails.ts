import type { WireItem } from '@bureau/protocol'
import { callBack } from '../agency/callback.ts'
import type { GuardrailResult, InputGuardrail, OutputGuardrail } from '../agency/guardrail.ts'
import type { RunContext } from '../agency/run-context.ts'
import { randomHex } from '../random-hex.ts'
import { GuardrailTripped } from '../run/run-errors.ts'
import type { Conversation } from './conversation.ts'
import { itemCreated } from './item-events.ts'

/**
 * Lets the addressed agent's guardrails look at what has come, once in a conversation. Those that do not ask otherwise run
 * before the model is asked, because a refused message must not cost a request.
 *
 * @returns To be called once the model has answered: rejects when one of those that ran meanwhile has refused.
 * @throws GuardrailTripped
 */
export async function checkInput(conversation: Conversation, context: RunContext): Promise<() => Promise<unknown>> {
  const { input_checked: isChecked, addressed, agent } = conversation.state
  const { inputGuardrails } = conversation.agentInControl
  if (isChecked || agent !== addressed || inputGuardrails.length === 0) return async () => {}
  const args = { agent: conversation.agentInControl, input: [...conversation.items], context }
  const check = (guardrail: InputGuardrail): Promise<void> =>
    requirePassed('input', guardrail.name, () => guardrail.execute(args))
  const meanwhile = Promise.all(inputGuardrails.filter(({ runInParallel }) => runInParallel === true).map(check))
  meanwhile.catch(() => {})
  await Promise.all(inputGuardrails.filter(({ runInParallel }) => runInParallel !== true).map(check))
  return async () => {
    await meanwhile
    conversation.advance({ type: 'input.checked' })
  }
}

/** @throws GuardrailTripped a guardrail of the answering agent refuses the answer. */
export async function checkOutput(conversation: Conversation, context: RunContext, answer: unknown): Promise<void> {
  const agent = conversation.agentInControl
  if (agent.outputGuardrails.length === 0) return
  const args = { agent, agentOutput: answer, context, details: { output: conversation.produced } }
  const check = (guardrail: OutputGuardrail): Promise<void> =>
    requirePassed('output', guardrail.name, () => guardrail.execute(args))
  await Promise.all(agent.outputGuardrails.map(check))
}

/** @throws CallbackFailed the guardrail itself fails, or does not say whether it refuses: nothing passes a broken guardrail. */
async function requirePassed(
  side: 'input' | 'output',
  name: string,
  check: () => Promise<GuardrailResult>,
): Promise<void> {
  const result = await callBack(`the ${side} guardrail "${name}"`, async () => {
    const given = await check()
    if (typeof given?.tripwireTriggered !== 'boolean') throw new TypeError('it returned no tripwireTriggered')
    return given
  })
  if (result.tripwireTriggered) throw new GuardrailTripped({ side, name, guidance: guidanceOf(result) })
}

/** What a tripped guardrail says: its `outputInfo`, which is meant for the conversation. */
function guidanceOf({ outputInfo: info }: GuardrailResult): string {
  if (typeof info === 'string') return info
  return info === undefined || info === null ? 'The message was not accepted.' : JSON.stringify(info)
}

/**
 * The guidance of an input guardrail becomes the answer.
 *
 * @throws GuardrailTripped the addressed agent asks for an error instead.
 */
export function answerWithGuidance(conversation: Conversation, tripped: GuardrailTripped): string {
  const { guidance } = tripped
  if (conversation.agentInControl.raiseInputGuardrailError) {
    conversation.receive([{ role: 'system', content: guidance }], 'input_guardrail_error')
    conversation.emit({ type: 'error', content: guidance, code: 'guardrail_tripped' })
    throw tripped
  }
  const item: WireItem = {
    id: `msg_${randomHex()}`,
    type: 'message',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: guidance, annotations: [] }],
  }
  conversation.receive([item], 'input_guardrail_message')
  const created = itemCreated(item, conversation.source)
  if (created) conversation.run.emit(created)
  return guidance
}
