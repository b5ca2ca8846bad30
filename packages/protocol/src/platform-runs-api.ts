import { z } from 'zod'
import { Message } from './message.ts'
import { GivenTime, Id, PageQuery, queryNumber, Time } from './platform-fields.ts'
import { Usage } from './usage.ts'

/** Runs, chats and their messages on the hosted platform. */

const PlatformRunStatus = z
  .enum(['queued', 'running', 'waiting', 'cancelling', 'completed', 'failed', 'cancelled'])
  .describe(
    'The last three are final. A run is `running` from its admission on; `queued` is one that an earlier version has left.',
  )

const PlatformRunError = z
  .object({
    code: z.string(),
    message: z.string(),
    class: z.enum(['system', 'upstream', 'caller', 'limit']).describe('Whose failure it was. `system` is refunded.'),
    retryable: z.boolean().describe('Whether the same request may succeed with a new usageRequestId.'),
  })
  .meta({ id: 'RunError' })
export type PlatformRunError = z.output<typeof PlatformRunError>

const CancelModeField = z.enum(['immediate', 'after_turn'])

export const PlatformRun = z
  .object({
    object: z.literal('run'),
    runId: z.string(),
    chatId: z.string(),
    apiIntegrationId: z.string(),
    agent: z.string(),
    agencyVersion: z
      .string()
      .nullable()
      .describe('Of the agency, as the process had it that worked on the run last; null until one has begun.'),
    usageRequestId: z.string().nullable(),
    consumerId: z.string().nullable(),
    status: PlatformRunStatus,
    createdAt: Time,
    startedAt: Time.nullable(),
    finishedAt: Time.nullable(),
    deadlineAt: Time,
    cancel: z.object({ mode: CancelModeField, requestedAt: Time }).nullable(),
    error: PlatformRunError.nullable(),
    usage: Usage.nullable().describe('The total so far; final once the run has ended.'),
    lastEventId: z.string().describe('The highest event id that is stored.'),
    message: z
      .string()
      .nullable()
      .optional()
      .describe('Where runs are read: the first 200 characters that the user wrote; null when the chat was deleted.'),
    outputText: z.string().nullable().optional().describe("With include=output: the entry agent's final text."),
    newMessages: z.array(Message).optional().describe('With include=output: as in the messages frame.'),
  })
  .meta({ id: 'Run' })
export type PlatformRun = z.output<typeof PlatformRun>

export const RunQuery = z.object({ include: z.literal('output').optional() })

export const RunListQuery = PageQuery.extend({
  apiIntegrationId: Id.optional(),
  chatId: Id.optional(),
  consumerId: Id.optional(),
  status: PlatformRunStatus.optional(),
  createdAfter: GivenTime.optional().describe('Included.'),
  createdBefore: GivenTime.optional().describe('Excluded.'),
})

export const RunEventsQuery = z.object({
  starting_after: z.string().max(32).optional().describe('Wins over the Last-Event-ID header.'),
})

export const RunTextQuery = z.object({ offset: z.string().max(32).optional().describe('UTF-8 bytes to leave out.') })

export const CancelRunRequest = z
  .strictObject({
    cancel_mode: CancelModeField.default('immediate').describe('after_turn lets the running turn finish.'),
    waitMs: z.int().min(0).max(60_000).default(10_000).describe('Longest wait for the run to end, in milliseconds.'),
  })
  .meta({ id: 'CancelRunRequest' })

export const CancelRunResponse = z
  .object({
    ok: z.boolean().describe('False: still stopping.'),
    run_id: z.string(),
    cancelled: z.boolean().describe('False also when the run ended before the cancel arrived.'),
    cancel_mode: CancelModeField,
    new_messages: z.array(Message),
    run: PlatformRun,
  })
  .meta({ id: 'CancelRunResponse' })
export type CancelRunResponse = z.output<typeof CancelRunResponse>

export const ChatStatus = z
  .object({
    object: z.literal('chat_status'),
    apiIntegrationId: z.string(),
    chatId: z.string(),
    aliasChatId: z.string().nullable(),
    chatState: z.enum(['idle', 'busy']).describe('busy: some run of the chat is active, not necessarily this one.'),
    activeRunId: z.string().nullable(),
    usageRequestId: z.string().nullable(),
    consumerId: z.string().nullable(),
    run: PlatformRun.nullable(),
    recovery: z.object({
      action: z.enum(['attach', 'wait', 'use_result', 'new_request']).describe('What to do next.'),
      eventsUrl: z.string().nullable(),
      reason: z.string(),
    }),
  })
  .meta({ id: 'ChatStatus' })
export type ChatStatus = z.output<typeof ChatStatus>

export const ChatStatusQuery = z
  .object({
    apiIntegrationId: Id,
    usageRequestId: Id.optional().describe('Of a request; or name the chat.'),
    aliasChatId: Id.optional().describe('Of a chat: where it stands with its latest run.'),
  })
  .refine(({ usageRequestId, aliasChatId }) => (usageRequestId === undefined) !== (aliasChatId === undefined), {
    path: ['usageRequestId'],
    message: 'give either usageRequestId or aliasChatId',
  })

export const PlatformChat = z
  .object({
    object: z.literal('chat'),
    chatId: z.string(),
    aliasChatId: z.string().nullable(),
    apiIntegrationId: z.string(),
    title: z.string().nullable(),
    firstMessage: z
      .string()
      .nullable()
      .describe('What it began with: the first 200 characters that the user wrote; null while nothing was said.'),
    createdByConsumerId: z.string().nullable(),
    messageCount: z.int(),
    chatState: z.enum(['idle', 'busy']),
    activeRunId: z.string().nullable(),
    lastRunId: z.string().nullable(),
    lastRunStatus: PlatformRunStatus.nullable(),
    createdAt: Time,
    updatedAt: Time,
  })
  .meta({ id: 'Chat' })
export type PlatformChat = z.output<typeof PlatformChat>

export const ChatListQuery = PageQuery.extend({
  apiIntegrationId: Id.optional(),
  consumerId: Id.optional(),
  aliasChatId: Id.optional(),
  updatedAfter: GivenTime.optional(),
})

export const ChatPatch = z
  .strictObject({ title: z.string().min(1).max(200).nullable().optional(), aliasChatId: Id.nullable().optional() })
  .refine((changes) => Object.keys(changes).length > 0, 'must change something')
  .meta({ id: 'ChatPatch' })

export const ChatBranchCreate = z
  .strictObject({
    beforeRunId: Id.describe('The run whose message is to be said anew: what was said before it is copied.'),
    aliasChatId: Id.nullable().optional().describe('A name of your own for the new chat.'),
  })
  .meta({ id: 'ChatBranchCreate' })

const AttachmentView = z
  .object({
    id: z.string(),
    type: z.enum(['input_file', 'input_image']),
    filename: z.string().nullable(),
    mime: z.string().nullable(),
    bytes: z.int().nullable(),
    urlKey: z.string().nullable().describe('The URL without its query.'),
    inline: z.boolean(),
    state: z.enum(['ok', 'excluded', 'needs_refresh']).describe('excluded: it belongs to a failed response.'),
  })
  .meta({ id: 'AttachmentView' })
export type AttachmentView = z.output<typeof AttachmentView>

export const ChatMessage = z
  .object({
    object: z.literal('message'),
    id: z.string(),
    seq: z.int(),
    role: z.enum(['user', 'assistant', 'system', 'tool']),
    status: z.enum(['ok', 'failed', 'cancelled', 'partial']).describe('Failed responses stay in the history.'),
    error: PlatformRunError.nullable().describe('Why it failed; null unless `status` is `failed`.'),
    runId: z.string(),
    agent: z.string().nullable(),
    item: Message,
    attachments: z.array(AttachmentView),
    createdAt: Time,
  })
  .meta({ id: 'ChatMessage' })
export type ChatMessage = z.output<typeof ChatMessage>

export const MessageListQuery = PageQuery.extend({
  order: z.enum(['asc', 'desc']).optional().describe('By number. Default asc.'),
  afterSeq: queryNumber(z.int().min(0)).optional().describe('Only messages with a higher number.'),
})
