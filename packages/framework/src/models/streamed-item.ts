import type { WireItem } from '@bureau/protocol'
import type { ResponseEventWriter } from './response-events.ts'
import type { FunctionCallEvents, ItemEnd, MessageEvents, ReasoningEvents } from './response-items.ts'

/** An item of which a part was streamed before its final form is known. */
export interface StreamedItem {
  readonly id: string
  readonly callId?: string
  /** The next piece of the text, of the reasoning summary, or of the call's arguments. */
  send(delta: string): void
  /** Sends what the final form has beyond the pieces, and ends the item with the final form's other members. */
  settle(final: WireItem, end: ItemEnd): void
}

export function streamMessage(message: MessageEvents): StreamedItem {
  let sent = ''
  const send = (delta: string): void => {
    sent += delta
    message.text(delta)
  }
  return {
    id: message.id,
    send,
    settle(final, end) {
      const { content, ...fields } = final
      const parts = partsOf(content)
      const text = parts.map((part) => part.text ?? '').join('')
      const refusals = parts.flatMap((part) => (part.type === 'refusal' ? [part.refusal ?? ''] : []))
      if (text !== '' || refusals.length === 0) send(restOf(text, sent))
      for (const refusal of refusals) message.refusal(refusal)
      // The final form may hold annotations; it counts only where it says what was streamed.
      const agrees = parts.length === 1 && refusals.length === 0 && text === sent
      message.done({ ...end, fields: agrees ? final : fields })
    },
  }
}

export function streamReasoning(reasoning: ReasoningEvents): StreamedItem {
  let sent = ''
  const send = (delta: string): void => {
    sent += delta
    reasoning.summary(delta)
  }
  return {
    id: reasoning.id,
    send,
    settle({ summary, ...fields }, end) {
      const [first, ...others] = partsOf(summary)
      if (first) send(restOf(first.text ?? '', sent))
      for (const part of others) {
        reasoning.endPart()
        reasoning.summary(part.text ?? '')
      }
      reasoning.done({ ...end, fields })
    },
  }
}

export function streamFunctionCall(call: FunctionCallEvents): StreamedItem {
  return {
    id: call.id,
    callId: call.callId,
    send: (delta) => call.arguments(delta),
    settle(final, end) {
      const text = typeof final['arguments'] === 'string' ? final['arguments'] : ''
      call.arguments(restOf(text, call.streamed))
      call.done({ ...end, fields: { ...final, call_id: call.callId, arguments: call.streamed } })
    },
  }
}

/** Opens an item of which nothing was streamed; undefined for kinds whose content does not come in pieces. */
export function openStreamed(writer: ResponseEventWriter, item: WireItem, ids: ItemIds): StreamedItem | undefined {
  switch (item.type) {
    case 'message':
      return streamMessage(writer.openMessage(ids.id))
    case 'reasoning':
      return streamReasoning(writer.openReasoning(ids.id))
    case 'function_call':
      return streamFunctionCall(writer.openFunctionCall({ name: String(item['name']), ...ids }))
    default:
      return undefined
  }
}

/** Ids to keep; where one is absent a new one is made. */
export type ItemIds = { readonly id?: string; readonly callId?: string }

function restOf(text: string, sent: string): string {
  return text.startsWith(sent) ? text.slice(sent.length) : ''
}

type Part = { readonly type?: string; readonly text?: string; readonly refusal?: string }

function partsOf(content: unknown): Part[] {
  if (typeof content === 'string') return [{ type: 'output_text', text: content }]
  return Array.isArray(content) ? content.filter((part): part is Part => typeof part === 'object' && part !== null) : []
}
