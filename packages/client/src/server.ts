import type {
  CancelMode,
  ChatMessage,
  GetCompletionV2Request,
  Message,
  PlatformChat,
  RunRequest,
} from '@bureau/protocol'
import { type Call, COMPLETION } from './send.ts'

/** A message, and what goes with it. */
export type Input<Body = GetCompletionV2Request | RunRequest, Name extends string = string> = {
  readonly message: Body extends { message: infer Message } ? Message : never
  /** A name of your own for the chat: on the platform the `aliasChatId`, or the id of a chat. Default: a new chat. */
  readonly chat?: string | undefined
  /** The agent to address. Default: the entry point. */
  readonly agent?: Name | undefined
  /** Readable by tools, never in the prompt. */
  readonly context?: Readonly<Record<string, unknown>> | undefined
  /** The id of this request, unlike any other: the platform's `usageRequestId`, the `request_id` of a self-hosted server. Default: a random one. */
  readonly request?: string | undefined
  /** What else the body of the request holds, by its name on the wire. */
  readonly body?: Partial<Body> | undefined
  /** Stops listening, as `detach()` does. */
  readonly signal?: AbortSignal | undefined
}

/** What a person has decided about a call that waits. */
export type Decision = {
  readonly callId: string
  readonly approve: boolean
  /** Shown to the model. */
  readonly reason?: string | undefined
  /** Take the place of the model's arguments, as a whole. Only where the approval says `edit`. */
  readonly arguments?: unknown
}

/** One item of a chat that is kept. `run` and `error` are null where that is not known. */
export type HistoryEntry = {
  readonly item: Message
  readonly run: string | null
  /** Why its run failed. */
  readonly error: { readonly code: string; readonly message: string } | null
}

/** A part of a chat's history, oldest first; `cursor` leads to the part before it, null: this is the beginning. */
export type HistoryPage = { readonly entries: readonly HistoryEntry[]; readonly cursor: string | null }

/** How a run that has waited goes on: by a request of its own, or as the same run behind event number `after`. */
type WayOn = { readonly call: Call } | { readonly run: string; readonly after: number }

/** A run that waits: what it was asked, and what came of it so far. */
type Waiting = {
  readonly run: string
  /** The number of its last event. */
  readonly after: number
  /** What was sent with the message, as far as it is known: of a run that was attached to, little. */
  readonly input: Partial<Omit<Input, 'message'>>
  /** What had been said in the chat when it was asked, and what it has produced. */
  readonly history: readonly Message[]
}

/** What differs between the two servers. */
export type Server = {
  /** Its integration or agency has this name among all of them. */
  readonly name: string
  /** Whether a run goes on without its client and can be followed again; a request that comes again begins no second one. */
  readonly resumes: boolean
  start(input: Input, request: string, history: readonly Message[]): Call
  /** Makes a decision known at once, where the server keeps it. */
  decide?(run: string, decision: Decision): Call
  /** All calls that the run waits for are decided on. */
  goOn(
    waiting: Waiting,
    decisions: readonly (Decision & { readonly token?: string | undefined })[],
    request: string,
  ): WayOn
  /** The events after number `after`. */
  follow(run: string, after: number): Call
  cancel(run: string, mode: CancelMode): Call
  /** The id of the run of a request, or, where that is not known, of the active run of a chat. */
  find(request: string | null | undefined, chat: string, ask: Ask): Promise<string | null>
  /** A part of a chat's history, where the server keeps it. */
  history?(chat: string, cursor: string | undefined, ask: Ask): Promise<HistoryPage>
}

/** Sends a call and gives the JSON of its answer. */
export type Ask = <Answer>(call: Call) => Promise<Answer>

export const post = (path: string, body: unknown): Call => ({ method: 'POST', path, body: JSON.stringify(body) })
export const get = (path: string): Call => ({ method: 'GET', path })

const HISTORY_PAGE = 100

/** Whether a chat is named by the platform's own id: pages of consumers cannot give names. */
const isChatId = (chat: string): boolean => /^chat_[0-9a-z]{26}$/.test(chat)

/** An integration of the hosted platform. */
export function platformServer(integration: string): Server {
  const query = `apiIntegrationId=${encodeURIComponent(integration)}`
  const pathOf = (run: string): string => `/v1/runs/${encodeURIComponent(run)}`
  const chatOf = async (chat: string, ask: Ask): Promise<PlatformChat | undefined> => {
    if (isChatId(chat)) return ask<PlatformChat>(get(`/v1/chats/${chat}`))
    const lookUp = get(`/v1/chats?${query}&aliasChatId=${encodeURIComponent(chat)}`)
    return (await ask<{ data: PlatformChat[] }>(lookUp)).data[0]
  }
  return {
    name: integration,
    resumes: true,
    start: ({ message, chat, agent, context, body }, request) =>
      post(COMPLETION, {
        ...(chat !== undefined && { [isChatId(chat) ? 'chatId' : 'aliasChatId']: chat }),
        agent,
        user_context: context,
        ...body,
        apiIntegrationId: integration,
        message,
        usageRequestId: request,
      }),
    follow: (run, after) => get(`${pathOf(run)}/events?starting_after=${after}`),
    cancel: (run, mode) => post(`${pathOf(run)}/cancel`, { cancel_mode: mode, waitMs: 0 }),
    find: async (request, chat, ask) => {
      if (request == null) return (await chatOf(chat, ask))?.activeRunId ?? null
      const lookUp = get(`/v1/chat_status?${query}&usageRequestId=${encodeURIComponent(request)}`)
      return (await ask<{ run: { runId: string } | null }>(lookUp)).run?.runId ?? null
    },
    decide: (run, decision) => post(`${pathOf(run)}/approvals`, [decision]),
    goOn: ({ run, after }) => ({ run, after }),
    history: async (chat, cursor, ask) => {
      const id = (await chatOf(chat, ask))?.chatId
      if (id === undefined) return { entries: [], cursor: null }
      const from = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`
      const page = get(`/v1/chats/${id}/messages?order=desc&limit=${HISTORY_PAGE}${from}`)
      const { data, nextCursor } = await ask<{ data: ChatMessage[]; nextCursor: string | null }>(page)
      const entries = data.map(({ item, runId: run, error }) => ({ item, run, error }))
      return { entries: entries.toReversed(), cursor: nextCursor }
    },
  }
}

/** An agency of a self-hosted server, which keeps no history. */
export function agencyServer(resume: boolean): Server {
  const start = (
    { message, agent, context, body }: Partial<Input>,
    request: string,
    history: readonly Message[],
    approvals?: readonly object[],
  ): Call =>
    post('/get_response_stream', {
      chat_history: history,
      recipient_agent: agent,
      user_context: context,
      ...body,
      message,
      ...(approvals && { approvals }),
      ...(resume && { on_disconnect: 'continue', request_id: request }),
    })
  return {
    name: '',
    resumes: resume,
    start,
    goOn: ({ input, history }, decisions, request) => {
      const approvals = decisions.map(({ callId, ...decision }) => ({ call_id: callId, ...decision }))
      return { call: start(input, request, history, approvals) }
    },
    follow: (run, after) => get(`/runs/${encodeURIComponent(run)}/events?starting_after=${after}`),
    cancel: (run, mode) => post('/cancel_response_stream', { run_id: run, cancel_mode: mode }),
    // It knows no chats.
    find: async (request, _chat, ask) =>
      request == null
        ? null
        : (await ask<{ run_id: string }>(get(`/runs?request_id=${encodeURIComponent(request)}`))).run_id,
  }
}
