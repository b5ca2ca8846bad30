import { isDeepStrictEqual } from 'node:util'
import { omitOptionalNulls } from '@ag-ui/core'
import {
  ActivityMessageSchema,
  AssistantMessageSchema,
  DeveloperMessageSchema,
  ReasoningMessageSchema,
  RunAgentInputSchema,
  SystemMessageSchema,
  ToolMessageSchema,
  UserMessageSchema,
} from '@ag-ui/core/schemas'
import { sharedStateProblem } from '@bureau/framework'
import { type Fields, isFields, type RunEnded, RunRequest, type WireItem } from '@bureau/protocol'
import { z } from 'zod'
import { jsonOrText } from '../answer.ts'
import type { FaceRun } from '../face-host.ts'
import { FunctionName, MAX_FUNCTIONS, Parameters } from '../openai/caller-functions.ts'
import { isHostedTool } from './hosted-calls.ts'

/** A part of a message. Its kind is checked where it is converted, because older clients have kinds of their own. */
export const AguiPart = z.looseObject({ type: z.string() })
export type AguiPart = z.infer<typeof AguiPart>

const content = z.union([z.string(), z.array(AguiPart).max(1_000)])

const MAX_MESSAGES = 20_000

export const AguiMessage = z.discriminatedUnion('role', [
  DeveloperMessageSchema,
  SystemMessageSchema,
  AssistantMessageSchema,
  UserMessageSchema.extend({ content }),
  ToolMessageSchema.extend({ content }),
  ActivityMessageSchema,
  ReasoningMessageSchema,
])
export type AguiMessage = z.infer<typeof AguiMessage>

/** A decision about a call that waits, as the `responseSchema` of its interrupt has it. */
const ResumePayload = z.looseObject({
  approved: z.boolean(),
  reason: z.string().max(10_000).nullish(),
  editedArgs: z.record(z.string(), z.unknown()).nullish(),
})

const ResumeEntry = z.discriminatedUnion('status', [
  z.looseObject({ interruptId: z.string(), status: z.literal('resolved'), payload: ResumePayload }),
  z.looseObject({ interruptId: z.string(), status: z.literal('cancelled') }),
])

/** A tool of the page: its calls end the run, and the page carries them out. */
const PageTool = z.looseObject({
  name: FunctionName.refine((name) => !isHostedTool(name), 'is the name of a tool of the model provider'),
  description: z.string(),
  parameters: Parameters.optional(),
})

const PageTools = z
  .array(PageTool)
  .max(MAX_FUNCTIONS)
  .superRefine((tools, context) => {
    const names = new Set<string>()
    for (const [index, { name }] of tools.entries()) {
      if (names.has(name)) {
        const message = `there are two tools named "${name}"`
        context.addIssue({ code: 'custom', path: [index, 'name'], message })
      }
      names.add(name)
    }
  })

const MAX_CONTEXT_CHARACTERS = 262_144

/** What the page wants the agent to know. */
const PageContext = z
  .array(z.looseObject({ description: z.string(), value: z.string() }))
  .max(256)
  .refine((context) => JSON.stringify(context).length <= MAX_CONTEXT_CHARACTERS, {
    error: `has more than ${MAX_CONTEXT_CHARACTERS} characters as JSON`,
  })

const SharedStateOfPage = z.unknown().superRefine((state, context) => {
  const problem = state === undefined ? undefined : sharedStateProblem(state)
  if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
})

/** Repeated in the events of the run. */
const Identifier = z.string().max(1_024)

/** What the run takes beyond the protocol's own input. */
const BUREAU_FIELDS = {
  chat_history: true,
  additional_instructions: true,
  user_context: true,
  file_ids: true,
  file_urls: true,
  client_config: true,
} as const

/**
 * Body of `get_response_stream` in AG-UI mode: the protocol's run input plus fields of ours.
 *
 * `forwardedProps` is accepted and not used. As AG-UI 1.0 has it, only `threadId`, `runId` and `messages` must be there.
 */
export const AguiRequest = RunAgentInputSchema.extend({
  threadId: Identifier,
  runId: Identifier,
  resume: z.array(ResumeEntry).max(128).optional(),
  parentRunId: Identifier.optional(),
  messages: z.array(AguiMessage).max(MAX_MESSAGES),
  tools: PageTools.optional(),
  context: PageContext.optional(),
  state: SharedStateOfPage.optional(),
  ...RunRequest.pick(BUREAU_FIELDS).shape,
})
export type AguiRequest = z.infer<typeof AguiRequest> & { readonly consumer_id?: string | undefined }

const notTaken = (instead: string): z.ZodOptional<z.ZodNever> => z.never(`is not taken here: ${instead}`).optional()

/** The same on the platform: it keeps the conversations, and its integrations choose the models. */
export const PlatformAguiRequest = AguiRequest.extend({
  chat_history: notTaken('the chat of the thread is the history'),
  client_config: notTaken('the owner of the integration chooses the models'),
  file_ids: notTaken('send files as parts of the message'),
  file_urls: notTaken('send files as parts of the message'),
  consumer_id: z.string().min(1).max(256).optional().describe('The consumer that is charged, and whose the thread is.'),
}).meta({ id: 'RunAgentInput' })

/** What the events of a run repeat or go on from. */
export type AguiRun = Pick<
  AguiRequest,
  'threadId' | 'runId' | 'parentRunId' | 'protocolVersion' | 'messages' | 'state'
> & {
  /** False: reasoning is left out. Default true. */
  readonly reasoning?: boolean
  /** Called when a result of a tool has parts that the client is too old for, and gets its texts alone. */
  readonly onPartsLost?: () => void
  /** The system item that says where this turn's files came from, once the run has read them. */
  readonly fileSources?: () => WireItem | undefined
  /** What a completed run has answered. Default: its `output`. */
  readonly resultOf?: (ended: RunEnded) => unknown
  /** Absent: it cannot be gone on with by other routes. */
  readonly run?: Pick<FaceRun, 'runId' | 'conversation' | 'approvalsUrl'>
}

/**
 * Whether a client knows all of AG-UI 1.0. Those before it do not say which version they speak, so how old one is cannot be
 * seen; they fail a run at events and values that are newer than they are.
 */
export function knowsAll({ protocolVersion }: AguiRun): boolean {
  return Number.parseInt(protocolVersion ?? '0', 10) >= 1
}

/**
 * A request body, whether its keys are in camelCase or snake_case. Nulls of optional fields count as absent.
 *
 * @param parse - Gets it with the keys of the protocol in camelCase.
 * @throws What `parse` throws.
 */
export function readAguiRequest(body: unknown, parse: (body: unknown) => AguiRequest): AguiRequest {
  const given = isFields(body) && !isTooLong(body['messages']) ? withProtocolKeys(body) : body
  return withoutRepeatedDecisions(parse(given))
}

/**
 * CopilotKit ends the thread with each decision of `resume`, as if it were the result of the call that waits for it. The call
 * has no result yet.
 */
function withoutRepeatedDecisions(request: AguiRequest): AguiRequest {
  const { messages, resume = [] } = request
  const decisions = resume.map((each) => (each.status === 'resolved' ? each.payload : { status: 'cancelled' }))
  if (decisions.length === 0) return request
  const isRepeated = ({ role, content }: AguiMessage): boolean => {
    if (role !== 'tool') return false
    const result = typeof content === 'string' && jsonOrText(content) // once, because it may be long
    return decisions.some((decision) => isDeepStrictEqual(decision, result))
  }
  const last = messages.findLastIndex(({ role }) => role !== 'tool')
  return { ...request, messages: messages.filter((message, at) => at <= last || !isRepeated(message)) }
}

function withProtocolKeys(body: Fields): unknown {
  const request: Record<string, unknown> = renamed(body, REQUEST_KEYS)
  request['messages'] = eachOf(request['messages'], (message) => {
    const { content, toolCalls, ...rest } = renamed(message, MESSAGE_KEYS)
    return {
      ...rest,
      ...(content !== undefined && { content: eachOf(content, withPartKeys) }),
      ...(toolCalls !== undefined && { toolCalls: eachOf(toolCalls, (call) => renamed(call, MESSAGE_KEYS)) }),
    }
  })
  if (request['resume'] !== undefined) {
    request['resume'] = eachOf(request['resume'], ({ payload, ...entry }) => ({
      ...renamed(entry, RESUME_KEYS),
      ...(payload !== undefined && { payload: isFields(payload) ? renamed(payload, RESUME_KEYS) : payload }),
    }))
  }
  // The function drops nulls of a document that need not be valid; its type asks for a valid one.
  return omitOptionalNulls(request as never, 'RunAgentInput')
}

function withPartKeys(part: Fields): Fields {
  const { source, ...rest } = renamed(part, PART_KEYS)
  return { ...rest, ...(source !== undefined && { source: isFields(source) ? renamed(source, PART_KEYS) : source }) }
}

const REQUEST_KEYS: ReadonlyMap<string, string> = new Map([
  ...['threadId', 'runId', 'parentRunId', 'forwardedProps', 'protocolVersion'].map(
    (key) => [snakeCase(key), key] as const,
  ),
  ...[...Object.keys(BUREAU_FIELDS), 'consumer_id'].map((key) => [camelCase(key), key] as const),
])

const MESSAGE_KEYS: ReadonlyMap<string, string> = new Map(
  ['toolCalls', 'toolCallId', 'encryptedValue', 'subagentRunId', 'activityType'].map((key) => [snakeCase(key), key]),
)

const RESUME_KEYS: ReadonlyMap<string, string> = new Map(
  ['interruptId', 'editedArgs'].map((key) => [snakeCase(key), key]),
)

const PART_KEYS: ReadonlyMap<string, string> = new Map([['mime_type', 'mimeType']])

function renamed(fields: Fields, names: ReadonlyMap<string, string>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [names.get(key) ?? key, value]))
}

/** Values that are not what they should be are left to the schema, which says so. */
function eachOf(list: unknown, convert: (entry: Fields) => unknown): unknown {
  if (!Array.isArray(list) || isTooLong(list)) return list
  return list.map((entry) => (isFields(entry) ? convert(entry) : entry))
}

const isTooLong = (list: unknown): boolean => Array.isArray(list) && list.length > MAX_MESSAGES

function snakeCase(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

function camelCase(key: string): string {
  return key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}
