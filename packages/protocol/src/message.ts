import { z } from 'zod'
import { type Fields, isFields } from './fields.ts'

/**
 * One item of a conversation: a Responses API item in its wire form plus the metadata that says whose it is.
 *
 * This is what is stored, streamed, accepted as `chat_history` and sent to the model (without the metadata).
 * Only the members that Bureau itself reads are named; everything else of an item is kept as it came.
 */
export const Message = z
  .looseObject({
    type: z.string().optional(),
    role: z.string().optional(),
    id: z.string().optional(),
    call_id: z.string().optional(),
    agent: z.string().nullish().describe('The agent that received (user, system) or produced (all else) the item.'),
    callerAgent: z.string().nullish().describe('Null: the conversation with the user. Otherwise the sending agent.'),
    timestamp: z.number().optional().describe('Microseconds since the epoch.'),
    agent_run_id: z.string().optional(),
    parent_run_id: z
      .string()
      .optional()
      .describe('The call_id of the message-tool call that opened a sub-conversation.'),
    run_trace_id: z.string().optional(),
    history_protocol: z.string().optional(),
    message_origin: z.string().optional(),
  })
  .meta({ id: 'Message' })
export type Message = z.infer<typeof Message>

/**
 * Whether a value is a message as it is. Long histories are checked by this, because the schema, which says the same, makes a
 * copy of each item and ten more objects.
 */
export function isMessage(value: unknown): value is Message {
  return (
    isFields(value) &&
    isTextOrAbsent(value['type']) &&
    isTextOrAbsent(value['role']) &&
    isTextOrAbsent(value['id']) &&
    isTextOrAbsent(value['call_id']) &&
    isGoodMetadata(value)
  )
}

function isGoodMetadata(item: Fields): boolean {
  return (
    (item['agent'] === null || isTextOrAbsent(item['agent'])) &&
    (item['callerAgent'] === null || isTextOrAbsent(item['callerAgent'])) &&
    (item['timestamp'] === undefined || Number.isFinite(item['timestamp'])) &&
    isTextOrAbsent(item['agent_run_id']) &&
    isTextOrAbsent(item['parent_run_id']) &&
    isTextOrAbsent(item['run_trace_id']) &&
    isTextOrAbsent(item['history_protocol']) &&
    isTextOrAbsent(item['message_origin'])
  )
}

function isTextOrAbsent(value: unknown): boolean {
  return value === undefined || typeof value === 'string'
}

/** An item of `chat_history` as clients send it back. Some write null for what an item does not have. */
export const HistoryItem = z.preprocess(withoutNulls, Message)

/** Members that are there or not, but never null. */
const NEVER_NULL = Object.keys(Message.shape).filter((name) => name !== 'agent' && name !== 'callerAgent')

function withoutNulls(item: unknown): unknown {
  if (typeof item !== 'object' || item === null) return item
  const fields = item as Readonly<Record<string, unknown>>
  if (!NEVER_NULL.some((name) => fields[name] === null)) return item
  return Object.fromEntries(
    Object.entries(fields).filter(([name, value]) => value !== null || !NEVER_NULL.includes(name)),
  )
}

/** What the content of a message or the summary of a reasoning says: a text, or parts that hold some. A refusal is text too. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part: { text?: string; refusal?: string } | null) => part?.text ?? part?.refusal ?? '').join('')
}

/** Whether events of a model of this kind bring a piece of what a message says. */
export function isTextDelta(kind: string): boolean {
  return kind === 'response.output_text.delta' || kind === 'response.refusal.delta'
}

/** A Responses API item in its wire form, without Bureau's metadata. */
export type WireItem = { readonly [key: string]: unknown; type?: string; role?: string; id?: string; call_id?: string }

const METADATA = new Set([
  // Not metadata, but it would replace the prototype of the copy.
  '__proto__',
  'agent',
  'callerAgent',
  'timestamp',
  'agent_run_id',
  'parent_run_id',
  'run_trace_id',
  'history_protocol',
  'message_origin',
  'citations',
])

/** The item as the model provider may see it. */
export function withoutMetadata(message: Message): WireItem {
  const item: Record<string, unknown> = {}
  // A loop, because every item of a long history comes through here.
  for (const key of Object.keys(message)) if (!METADATA.has(key)) item[key] = message[key]
  return item
}
