import { randomUUID } from 'node:crypto'
import { InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered } from '#agents-core'
import type { WireItem } from '@bureau/protocol'
import type { Conversation } from './conversation.ts'
import { itemCreated } from './item-events.ts'

/** What a tripped guardrail says: its `outputInfo`, which is meant for the conversation. */
export function guidanceOf(error: InputGuardrailTripwireTriggered | OutputGuardrailTripwireTriggered<never>): string {
  const info: unknown = error.result.output.outputInfo
  if (typeof info === 'string') return info
  return info === undefined || info === null ? 'The message was not accepted.' : JSON.stringify(info)
}

/** The guidance of an input guardrail becomes the answer; the model is not asked. */
export function sayGuidance(conversation: Conversation, guidance: string): string {
  const item: WireItem = {
    id: `msg_${randomUUID().replaceAll('-', '')}`,
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
