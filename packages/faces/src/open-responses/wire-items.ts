import type { Message, WireItem } from '@bureau/protocol'
import { problemSentence } from '@bureau/runtime'
import { z } from 'zod'
import { jsonOrText } from '../answer.ts'
import type { FaceDecision } from '../face-host.ts'
import { invalidParam, unsupportedParam } from '../openai/api-error.ts'
import { type Conversation, readConversation } from '../openai/conversation.ts'
import { deepest, parseEach } from '../openai/parse-body.ts'
import type { Earlier } from './response-store.ts'
import { isApprovalMessage } from './whole-items.ts'

const Part = z.looseObject({ type: z.string().max(64), text: z.string().nullish() })
const Content = z.union([z.string(), z.array(Part).max(1_000)])
const Id = z.string().max(256)

const InputMessage = z.looseObject({
  type: z.literal('message').optional(),
  role: z.enum(['user', 'assistant', 'system', 'developer']),
  content: Content,
})

const FunctionCall = z.looseObject({
  type: z.literal('function_call'),
  call_id: Id,
  name: z.string().max(256),
  arguments: z.string(),
})

const FunctionCallOutput = z.looseObject({
  type: z.literal('function_call_output'),
  call_id: Id,
  output: Content,
})

const ToolCallStep = z.looseObject({
  type: z.literal('bureau:tool_call'),
  call_id: Id,
  name: z.string().max(256),
  arguments: z.string(),
  output: z.unknown(),
})

const ApprovalRequest = z.looseObject({
  type: z.literal('bureau:approval_request'),
  call_id: Id,
  name: z.string().max(256),
  arguments: z.string(),
  token: z.string().optional(),
})

const ApprovalResponse = z.looseObject({
  type: z.literal('bureau:approval_response'),
  call_id: Id,
  approve: z.boolean(),
  reason: z.string().max(10_000).nullish(),
  arguments: z.union([z.string(), z.looseObject({})]).nullish(),
  token: z.string().nullish(),
})
type ApprovalResponse = z.output<typeof ApprovalResponse>

const Typed = z.looseObject({ type: z.string().max(64) })

/** Every item by its type; one without a type is a message. */
const InputItem = z.unknown().transform((value, context): WireItem => {
  const { type } = (value ?? {}) as { readonly type?: unknown }
  const schema = SCHEMAS.get(type) ?? (type === undefined ? InputMessage : Typed)
  const parsed = schema.safeParse(value, { error: problemSentence })
  if (parsed.success) return parsed.data as WireItem
  const { path, message } = deepest(parsed.error.issues[0]!)
  context.addIssue({ code: 'custom', path: [...path], message })
  return z.NEVER
})

const SCHEMAS: ReadonlyMap<unknown, z.ZodType> = new Map<unknown, z.ZodType>([
  ['message', InputMessage],
  ['function_call', FunctionCall],
  ['function_call_output', FunctionCallOutput],
  ['bureau:tool_call', ToolCallStep],
  ['bureau:approval_request', ApprovalRequest],
  ['bureau:approval_response', ApprovalResponse],
])

/** What providers put into their responses themselves, and take back. */
const PASSED_ON = /^(?:reasoning|\w+_call|mcp_\w+|\w+_call_output)$/

type ReadInput = Omit<Conversation, 'history'> & {
  readonly history: readonly Message[]
  /** What a person has decided about calls that wait. */
  readonly decisions: readonly FaceDecision[]
  /** The items of the request, as they came. */
  readonly items: readonly WireItem[]
}

/**
 * @throws ApiError 400, with the item that is wrong.
 */
export function readInput(input: string | readonly unknown[] | null | undefined, before: Earlier): ReadInput {
  const { thread: earlier, known: output } = before
  const items = parseEach(InputItem, typeof input === 'string' ? userMessage(input) : (input ?? []), 'input')
  requireUsable(items, before)
  const answers = items.filter(isApprovalResponse)
  // A run that goes on has its calls itself.
  const known = new Set([...(earlier ?? []), ...answers].flatMap(({ call_id: id }) => id ?? []))
  const read = readConversation(
    items.flatMap((item) => toWire(item, known)),
    'input',
  )
  const isWire = ({ type }: WireItem): boolean => type === undefined || !type.startsWith('bureau:')
  return {
    instructions: read.instructions,
    history: [...(earlier ?? []), ...read.history.filter(isWire)],
    message: read.message.filter(isWire),
    decisions: answers.map((answer) => decisionOf(answer, [...output, ...items])),
    items,
  }
}

/** Whoever says nothing has sent no message. */
const userMessage = (content: string): object[] => (content === '' ? [] : [{ type: 'message', role: 'user', content }])

const isApprovalResponse = (item: WireItem): item is WireItem & ApprovalResponse =>
  item.type === 'bureau:approval_response'

/** The token of a request comes back with its item, or is known from the response before. */
function decisionOf(answer: ApprovalResponse, around: readonly WireItem[]): FaceDecision {
  const { call_id: callId, approve, reason, arguments: args } = answer
  const asked = around.findLast(({ type, call_id: id }) => type === 'bureau:approval_request' && id === callId)
  const token = answer.token ?? asked?.['token']
  return {
    callId,
    approve,
    ...(typeof token === 'string' && { token }),
    ...(reason != null && { reason }),
    ...(args != null && { arguments: typeof args === 'string' ? jsonOrText(args) : args }),
  }
}

function requireUsable(items: readonly WireItem[], { thread, known: output }: Earlier): void {
  const known = new Set(
    [...(thread ?? output), ...items].flatMap(({ type, call_id: id }) => (isCall(type) && id ? [id] : [])),
  )
  for (const [index, { type, call_id: id }] of items.entries()) {
    const at = `input[${index}]`
    if (type === 'item_reference') throw unsupportedParam(at, 'send the item itself; clients do so with store: false')
    if (type === 'function_call_output' && !known.has(id ?? '')) {
      throw invalidParam(`${at}.call_id`, 'neither the input nor the response before it has a call of that id')
    }
    const isKnown = type === undefined || SCHEMAS.has(type) || PASSED_ON.test(type) || type.startsWith('bureau:')
    if (!isKnown) throw unsupportedParam(`${at}.type`, `"${type}" is not an item that agents take`)
  }
}

const isCall = (type: string | undefined): boolean =>
  type === 'function_call' || type === 'bureau:tool_call' || type === 'bureau:approval_request'

/** Steps that were shown go back as the call and its output, a call that waits as the call; the others are for people. */
function toWire(item: WireItem, known: ReadonlySet<string>): WireItem[] {
  if (isApprovalResponse(item)) return [item]
  if (item.type === 'bureau:approval_request') {
    const { call_id = '', name, arguments: args } = item
    return [known.has(call_id) ? item : { type: 'function_call', call_id, name, arguments: args }]
  }
  if (item.type === 'bureau:tool_call') {
    const { call_id, name, arguments: args, output } = item
    const text = typeof output === 'string' ? output : JSON.stringify(output ?? '')
    if (call_id === undefined || output == null) return []
    return [
      { type: 'function_call', call_id, name, arguments: args },
      { type: 'function_call_output', call_id, output: text },
    ]
  }
  return item.type?.startsWith('bureau:') || isApprovalMessage(item) ? [] : [item]
}
