import { z } from 'zod'
import { FileName, Id, utf8Length } from './platform-fields.ts'

/** The stated operations of the hosted platform: completion and chat creation. */

const MAX_MESSAGE_BYTES = 524_288
const MAX_CONTEXT_BYTES = 65_536
const MAX_CONTEXT_DEPTH = 32

const InputFile = z
  .strictObject({
    type: z.literal('input_file'),
    file_url: z.string().max(8192).describe('Publicly accessible HTTPS URL.').meta({ format: 'uri' }),
    filename: FileName.optional().describe('File name without a directory path.'),
  })
  .meta({ id: 'InputFile' })

const InputImage = z
  .strictObject({
    type: z.literal('input_image'),
    image_url: z.string().min(1).describe('Publicly accessible HTTPS image URL, or an inline image data URL.'),
    detail: z.enum(['auto', 'low', 'high']).default('auto').describe('How closely the model looks.'),
  })
  .meta({ id: 'InputImage' })

const Attachment = z
  .discriminatedUnion('type', [InputFile, InputImage])
  .meta({ id: 'Attachment', discriminator: { propertyName: 'type' } })
type Attachment = z.output<typeof Attachment>

const SandboxFile = z
  .object({
    name: FileName.describe('Uploaded file name; equals the last segment of `path`.'),
    path: z.string().max(1024).describe('Canonical path under `/app/mnt/`, as returned by `create_agency_upload`.'),
  })
  .meta({ id: 'SandboxFile' })
type SandboxFile = z.output<typeof SandboxFile>

const UserContext = z
  .union([z.record(z.string(), z.unknown()), z.string()], { error: 'must be an object, text or null' })
  .nullable()
  .refine(
    (context) =>
      (typeof context !== 'string' || context.length <= MAX_CONTEXT_BYTES) && // what is far too long is not written out
      utf8Length(JSON.stringify(context)) <= MAX_CONTEXT_BYTES,
    'must be at most 64 KiB of JSON',
  )
  .refine((context) => depthOf(context) <= MAX_CONTEXT_DEPTH, 'must not be nested deeper than 32 levels')

/** What a run of the platform is given, through whatever protocol it comes. */
export const RunWords = z.object({
  message: z
    .string()
    .refine((text) => utf8Length(text) <= MAX_MESSAGE_BYTES, 'must be at most 512 KiB')
    .describe('The user message. May be empty when there are attachments or sandboxFiles.'),
  user_context: UserContext.optional().describe('Caller context for the run: readable by tools, never in the prompt.'),
})

/** Body of `POST /get_completion_v2`. Unknown members are ignored. */
export const GetCompletionV2Request = z
  .object({
    apiIntegrationId: Id.describe('Existing integration.'),
    message: RunWords.shape.message,
    agent: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .describe('Entry-point agent of the agency. Default: that of the integration.'),
    chatId: Id.nullish().describe('Target chat. Without it and without an alias a chat is created.'),
    aliasChatId: Id.nullish().describe('Alias of a chat. A chat with it is created when there is none.'),
    attachments: z.array(Attachment).max(5).optional(),
    sandboxFiles: z
      .array(SandboxFile)
      .max(5)
      .optional()
      .describe("Files that were uploaded into the integration's mount; the agent reads them with tools."),
    user_context: RunWords.shape.user_context,
    consumerId: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .describe(
        'Who asks. A registered member when member allowances are enabled or members are required; never an inactive one.',
      ),
    usageRequestId: Id.refine((id) => utf8Length(id) <= 255, 'must be at most 255 bytes')
      .optional()
      .describe('Unique per request; the same request with the same id attaches to the run it started.'),
    attachmentUrlRefreshes: z
      .record(z.string().max(8192), z.string().max(8192).meta({ format: 'uri' }))
      .refine((refreshes) => Object.keys(refreshes).length <= 100, 'may hold at most 100 entries')
      .optional()
      .describe('Fresh HTTPS URLs of earlier files, by their expired URL without its query string.'),
    rejectPending: z
      .boolean()
      .optional()
      .describe('True: a run of the chat that waits for a person ends, and its calls are rejected.'),
  })
  .refine(({ message, attachments, sandboxFiles }) => message !== '' || attachments?.length || sandboxFiles?.length, {
    path: ['message'],
    message: 'must not be empty without attachments or sandboxFiles',
  })
  .meta({ id: 'GetCompletionV2Request' })
export type GetCompletionV2Request = z.output<typeof GetCompletionV2Request>

/** Levels of objects and lists. The body that it came from has a bounded depth. */
function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Object.values(value).reduce<number>((deepest, member) => Math.max(deepest, depthOf(member)), 0)
}

/** Error body of the completion: these two members, whatever the error. What more there is to know is in headers. */
export const ApiErrorResponse = z
  .object({ error: z.string(), code: z.string().nullish() })
  .meta({ id: 'ApiErrorResponse' })

export const CreateNewChatRequest = z
  .object({ apiIntegrationId: Id.describe('Existing integration.') })
  .meta({ id: 'CreateNewChatRequest' })

export const CreateNewChatResponse = z.object({ chatId: z.string() }).meta({ id: 'CreateNewChatResponse' })

/** Error body of `POST /create_new_chat`. */
export const ChatError = z.object({ detail: z.string() }).meta({ id: 'ChatError' })

/** Error body of every other route of the platform. */
export const PlatformError = z
  .object({
    error: z.string().describe('A sentence for people.'),
    code: z.string().describe('For programs: never renamed.'),
    requestId: z.string(),
    fields: z
      .array(z.object({ path: z.string().describe('JSON pointer.'), code: z.string(), error: z.string() }))
      .optional(),
  })
  .meta({ id: 'PlatformError' })
