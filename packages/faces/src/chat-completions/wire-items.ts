import type { WireItem } from '@bureau/protocol'
import { z } from 'zod'
import { invalidParam } from '../openai/api-error.ts'
import { plainText } from '../openai/conversation.ts'
import { parseEach } from '../openai/parse-body.ts'

const TextPart = z.looseObject({ type: z.literal('text'), text: z.string() })

const UserPart = z.discriminatedUnion('type', [
  TextPart,
  z.looseObject({
    type: z.literal('image_url'),
    image_url: z.looseObject({ url: z.string(), detail: z.enum(['auto', 'low', 'high']).nullish() }),
  }),
  z.looseObject({
    type: z.literal('input_audio'),
    input_audio: z.looseObject({ data: z.string(), format: z.string() }),
  }),
  z.looseObject({
    type: z.literal('file'),
    file: z.looseObject({
      file_data: z.string().nullish(),
      filename: z.string().nullish(),
      file_id: z.string().nullish(),
    }),
  }),
])
type UserPart = z.output<typeof UserPart>

const Text = z.union([z.string(), z.array(TextPart).max(1_000)])

const ToolCall = z.looseObject({
  id: z.string(),
  type: z.literal('function'),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
})

const ChatMessage = z.discriminatedUnion('role', [
  z.looseObject({ role: z.enum(['system', 'developer']), content: Text }),
  z.looseObject({ role: z.literal('user'), content: z.union([z.string(), z.array(UserPart).max(1_000)]) }),
  z.looseObject({
    role: z.literal('assistant'),
    content: z
      .union([z.string(), z.array(z.looseObject({ text: z.string().nullish(), refusal: z.string().nullish() }))])
      .nullish(),
    tool_calls: z.array(ToolCall).max(1_000).nullish(),
  }),
  z.looseObject({ role: z.literal('tool'), tool_call_id: z.string(), content: Text }),
])
type ChatMessage = z.output<typeof ChatMessage>

/** The messages of a request as items. @throws ApiError 400, with the message that is wrong. */
export function readMessages(messages: readonly unknown[]): WireItem[] {
  const read = parseEach(ChatMessage, messages, 'messages')
  requireKnownCalls(read)
  return read.flatMap(toItems)
}

/** @throws ApiError 400: a model refuses a result whose call it does not see. */
function requireKnownCalls(messages: readonly ChatMessage[]): void {
  const known = new Set<string>()
  for (const [index, message] of messages.entries()) {
    if (message.role === 'assistant') for (const { id } of message.tool_calls ?? []) known.add(id)
    if (message.role !== 'tool' || known.has(message.tool_call_id)) continue
    throw invalidParam(`messages[${index}].tool_call_id`, 'no assistant message before this one has a call of that id')
  }
}

/** Items without ids: a provider takes an item with an id for one that it has stored. */
function toItems(message: ChatMessage): WireItem[] {
  switch (message.role) {
    case 'user': {
      const { content } = message
      return [{ type: 'message', role: 'user', content: typeof content === 'string' ? content : content.map(toPart) }]
    }
    case 'assistant': {
      const text = typeof message.content === 'string' ? message.content : partsText(message.content ?? [])
      const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: args } }) => ({
        type: 'function_call',
        call_id: id,
        name,
        arguments: args,
      }))
      return [...(text === '' ? [] : [{ type: 'message', role: 'assistant', content: text }]), ...calls]
    }
    case 'tool':
      return [{ type: 'function_call_output', call_id: message.tool_call_id, output: plainText(message.content) }]
    case 'system':
    case 'developer':
      return [{ type: 'message', role: message.role, content: message.content }]
  }
}

function toPart(part: UserPart): WireItem {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text }
    case 'image_url':
      return { type: 'input_image', image_url: part.image_url.url, detail: part.image_url.detail ?? 'auto' }
    case 'input_audio':
      return { type: 'input_audio', input_audio: part.input_audio }
    case 'file': {
      const { file_data, filename, file_id } = part.file
      return {
        type: 'input_file',
        ...(file_id != null && { file_id }),
        ...(file_data != null && { file_data, filename: filename ?? 'file' }),
      }
    }
  }
}

const partsText = (
  parts: readonly { text?: string | null | undefined; refusal?: string | null | undefined }[],
): string => parts.map(({ text, refusal }) => text ?? refusal ?? '').join('')
