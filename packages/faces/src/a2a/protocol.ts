import { z } from 'zod'

/**
 * What clients send in A2A 1.0, in the JSON form of its protocol buffers: unknown members are ignored, and null stands for a
 * member that is not there.
 */

export const PROTOCOL_VERSION = '1.0'

export type TaskState = (typeof TASK_STATES)[number]

const TASK_STATES = [
  'TASK_STATE_SUBMITTED',
  'TASK_STATE_WORKING',
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_INPUT_REQUIRED',
  'TASK_STATE_REJECTED',
  'TASK_STATE_AUTH_REQUIRED',
] as const

const TERMINAL: ReadonlySet<TaskState> = new Set([
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_REJECTED',
])

/** Whether nothing follows on this state. */
export const isTerminal = (state: TaskState): boolean => TERMINAL.has(state)

/** Whether whoever waits for an answer gets it now: the task has ended, or needs something of its client. */
export const isSettled = (state: TaskState): boolean =>
  isTerminal(state) || state === 'TASK_STATE_INPUT_REQUIRED' || state === 'TASK_STATE_AUTH_REQUIRED'

const MAX_PARTS = 1_000

const Id = z.string().min(1).max(256)
/** Protocol buffers write an empty string for an id that is not there. */
const OptionalId = z
  .string()
  .max(256)
  .nullish()
  .transform((id) => id || undefined)

const Part = z
  .looseObject({
    text: z.string().nullish(),
    raw: z.string().nullish(),
    url: z.string().nullish(),
    data: z.unknown().optional(),
    mediaType: z.string().nullish(),
    filename: z.string().nullish(),
  })
  .refine((part) => [part.text, part.raw, part.url, part.data].filter((content) => content != null).length === 1, {
    error: 'must have one of text, raw, url and data',
  })
export type Part = z.output<typeof Part>

const hasContent = ({ text, raw, url, data }: Part): boolean => data != null || Boolean(text || raw || url)

export const Message = z.looseObject({
  messageId: Id,
  role: z.literal('ROLE_USER', { error: 'must be ROLE_USER' }),
  parts: z
    .array(Part)
    .min(1)
    .max(MAX_PARTS)
    .refine((parts) => parts.length === 0 || parts.some(hasContent), { error: 'must hold some text, data or a file' }),
  contextId: OptionalId,
  taskId: OptionalId,
})
export type Message = z.output<typeof Message>

const NOT_WHOLE = { error: 'must be a whole number' }
/** Also as text: a query has nothing else, and the JSON of protocol buffers takes it everywhere. */
const Whole = z
  .union(
    [
      z.number(),
      z
        .string()
        .regex(/^-?\d+$/)
        .transform(Number),
    ],
    NOT_WHOLE,
  )
  .pipe(z.int(NOT_WHOLE))
const HistoryLength = Whole.refine((length) => length >= 0, { error: 'must not be negative' }).nullish()
const PageSize = Whole.refine((size) => size >= 1 && size <= 100, { error: 'must be from 1 to 100' }).nullish()

/** What goes into a header of a notification. Protocol buffers write an empty string for a member that is not there. */
const HeaderText = z
  .string()
  .max(2_000)
  .regex(/^[ -~]*$/, { error: 'must be printable ASCII' })

const NewPush = z.looseObject({
  id: OptionalId,
  url: z.string().min(1).max(2_000),
  token: HeaderText.nullish().transform((token) => token || undefined),
  authentication: z
    .looseObject({
      scheme: z.string().regex(/^[\w!#$%&'*+.^`|~-]{1,64}$/, { error: 'must be a scheme of HTTP, such as Bearer' }),
      credentials: HeaderText.min(1, { error: 'must be there: this server signs no tokens of its own' }),
    })
    .nullish()
    .transform((authentication) => authentication ?? undefined),
})
/** Where a client wants to be notified of a task, and how the server shows who it is. */
export type NewPush = z.output<typeof NewPush>

export const CreatePush = NewPush.extend({ taskId: Id })
export const PushOf = z.looseObject({ taskId: Id, id: Id })
export const ListPushes = z.looseObject({ taskId: Id })

export const SendMessage = z.looseObject({
  message: Message,
  configuration: z
    .looseObject({
      returnImmediately: z.boolean().nullish(),
      historyLength: HistoryLength,
      taskPushNotificationConfig: NewPush.nullish(),
    })
    .nullish(),
})
export type SendMessage = z.output<typeof SendMessage>

export const TaskOf = z.looseObject({ id: Id })
export const GetTask = z.looseObject({ id: Id, historyLength: HistoryLength })

export const ListTasks = z.looseObject({
  contextId: OptionalId,
  status: z
    .enum([...TASK_STATES, 'TASK_STATE_UNSPECIFIED'])
    .nullish()
    .transform((status) => (status === 'TASK_STATE_UNSPECIFIED' ? undefined : (status ?? undefined))),
  pageSize: PageSize,
  pageToken: z.string().max(256).nullish(),
  historyLength: HistoryLength,
  statusTimestampAfter: z.iso
    .datetime({ offset: true, error: 'must be a time, such as 2030-01-31T12:00:00Z' })
    .nullish(),
  // Also as text, because a query has nothing else.
  includeArtifacts: z
    .union([z.boolean(), z.stringbool()], { error: 'must be true or false' })
    .nullish()
    .transform((value) => value ?? false),
})
export type ListTasks = z.output<typeof ListTasks>
