import { type Message, type RunError, type WireItem, withoutMetadata } from '@bureau/protocol'
import type { OutputFormat } from '../agency/output-format.ts'
import type { ClientConfig } from '../models/client-config.ts'
import type { FileService } from '../models/resolve-model.ts'

/** A file that a model provider stores. `name` is untrusted. */
export type StoredFile = { readonly id: string; readonly name: string }

/** What the files of a request add to it. */
type AttachedFiles = Pick<RunInput, 'attachments' | 'attachmentSources' | 'fileIdsMap'> & {
  /** Files for a code interpreter that is there for this run only. */
  readonly codeFiles?: readonly StoredFile[]
  /** Called when the run has ended, whatever became of it. Never throws. */
  readonly release?: () => void
}

/** Files that cannot be used, and with them the whole request. `cause` is for the log. */
type FilesRefused = { readonly refused: RunError; readonly cause: unknown }

/**
 * Reads the files of a request: called once, before anything else of the run, with what the addressed agent's model can
 * do with files.
 *
 * @throws The reason of `signal` when it aborts.
 */
type ReadFiles = (service: FileService, signal: AbortSignal) => Promise<AttachedFiles | FilesRefused>

/** A function that the caller of a run carries out itself. */
export type CallerFunction = {
  readonly name: string
  readonly description: string
  /** JSON Schema of an object. */
  readonly parameters: Readonly<Record<string, unknown>>
  readonly strict: boolean
}

/** What the caller of a run asks of the model requests in the conversation with the user. */
export type CallerOptions = {
  /**
   * Offered to the addressed agent. A call of one of them ends the run, completed: its output comes with a later request.
   * The agent's own tools that were called beside it are carried out before.
   */
  readonly functions?: readonly CallerFunction[]
  /**
   * `required`, or the name of one of the functions: the addressed agent must call one, and is offered nothing else.
   * Default `auto`.
   */
  readonly functionChoice?: string
  /** False: at most one call at a time. Default: as the agent has it. */
  readonly parallelCalls?: boolean
  /** The form of the answer, of agents that have none of their own. */
  readonly format?: OutputFormat
  /** Of each model request; an agent's own limit counts where it is lower. */
  readonly maxOutputTokens?: number
  /** True: the model of the addressed agent answers alone, without the agent's instructions, tools and handoffs. */
  readonly modelOnly?: boolean
}

/** The part of a conversation that its history leaves out, or that is to be left out from now on. */
export type Overflow = {
  /** What was said before it, summed up; null: nothing was. */
  readonly summary: string | null
  readonly messages: readonly Message[]
  /** So many of the last of them are sent when there is no summary of them. */
  readonly spare: number
  /** Keeps the summary of all of it. */
  readonly keep: (summary: string) => Promise<void>
  readonly failed: (error: unknown) => void
}

/** A request to an agency, checked. */
export type RunInput = {
  /** What comes before `history`. */
  readonly overflow?: Overflow
  /** The user's message: text, or Responses API input items. */
  readonly message: string | readonly WireItem[]
  readonly history: readonly Message[]
  /** The agent that is addressed. Default: the agency's first entry point. */
  readonly agent?: string
  /** Added to the addressed agent's instructions for this run. */
  readonly additionalInstructions?: string
  /** The authenticated user, whose tokens protected tool servers get. */
  readonly userId?: string
  readonly userContext?: Readonly<Record<string, unknown>>
  /** The state that the page and the agents share, any JSON value, checked. Absent: the protocol of the request has none. */
  readonly sharedState?: unknown
  readonly clientConfig?: ClientConfig
  readonly callerOptions?: CallerOptions
  /** Reads the files that the request names. What it returns takes the place of the members below. */
  readonly readFiles?: ReadFiles
  /** Content parts (`input_file`, `input_image`) that join the last user item. */
  readonly attachments?: readonly WireItem[]
  /** A system item placed before this turn's message: where the attachments came from. */
  readonly attachmentSources?: WireItem
  /** A hint for the model about mounted files; never stored. */
  readonly attachmentHint?: string
  readonly fileIdsMap?: Readonly<Record<string, string>>
  /** Files for a code interpreter, and the service that has them. */
  readonly codeFiles?: { readonly files: readonly StoredFile[]; readonly service: FileService }
  /** True: a title for the chat is asked of the model after the run. */
  readonly generateChatName?: boolean
}

/** This turn's items, whose metadata is the run's to give: the attachments join the content of the last user item. */
export function inputItems(input: RunInput): WireItem[] {
  const items: WireItem[] =
    typeof input.message === 'string' ? [{ role: 'user', content: input.message }] : input.message.map(withoutMetadata)
  const last = items.at(-1)
  if (input.attachments?.length && last?.role === 'user') {
    const text = last['content']
    const parts = Array.isArray(text) ? text : text ? [{ type: 'input_text', text }] : []
    items[items.length - 1] = { ...last, content: [...parts, ...input.attachments] }
  }
  return items
}

/** Whether a message came with the request: the user's, where its files come from, or who is addressed now. */
export function isGiven({ callerAgent, role, message_origin: origin }: Message): boolean {
  if (callerAgent != null) return false
  return role === 'user' || (role === 'system' && (origin === undefined || origin === 'recipient_reminder'))
}
