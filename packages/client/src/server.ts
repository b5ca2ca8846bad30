import type { CancelMode, GetCompletionV2Request, Message, RunRequest } from '@bureau/protocol'
import type { Call } from './send.ts'

/** A message, and what goes with it. */
export type Input<Body = GetCompletionV2Request | RunRequest> = {
  readonly message: Body extends { message: infer Message } ? Message : never
  /** A name of your own for the chat. On the platform it is the `aliasChatId`. Default: a new chat. */
  readonly chat?: string
  /** The agent to address. Default: the entry point. */
  readonly agent?: string
  /** Readable by tools, never in the prompt. */
  readonly context?: Readonly<Record<string, unknown>>
  /** The id of this request, unlike any other; on the platform it is the `usageRequestId`. Default: a random one. */
  readonly request?: string
  /** What else the body of the request holds, by its name on the wire. */
  readonly body?: Partial<Body>
  /** Stops listening, as `detach()` does. */
  readonly signal?: AbortSignal
}

/** What differs between the two servers. */
export type Server = {
  /** Its integration or agency has this name among all of them. */
  readonly name: string
  /** Whether a request that begins a run may be sent again when its answer was lost: it never begins a second one. */
  readonly resends: boolean
  /** Whether a run goes on without its client and can be followed again. */
  readonly resumes: boolean
  start(input: Input, request: string): Call
  /** The events after number `after`. */
  follow(run: string, after: number): Call
  cancel(run: string, mode: CancelMode): Call
  /** The id of the run of a request, or of the active run of a chat. */
  find(at: { readonly request: string } | { readonly chat: string }, ask: Ask): Promise<string | null>
}

/** Sends a call and gives the JSON of its answer. */
type Ask = <Answer>(call: Call) => Promise<Answer>

const post = (path: string, body: unknown): Call => ({ method: 'POST', path, body: JSON.stringify(body) })
const get = (path: string): Call => ({ method: 'GET', path })

/** An integration of the hosted platform. */
export function platformServer(integration: string): Server {
  const query = `apiIntegrationId=${encodeURIComponent(integration)}`
  return {
    name: integration,
    resends: true,
    resumes: true,
    start: ({ message, chat, agent, context, body }, request) =>
      post('/get_completion_v2', {
        aliasChatId: chat,
        agent,
        user_context: context,
        ...body,
        apiIntegrationId: integration,
        message,
        usageRequestId: request,
      }),
    follow: (run, after) => get(`/v1/runs/${encodeURIComponent(run)}/events?starting_after=${after}`),
    cancel: (run, mode) => post(`/v1/runs/${encodeURIComponent(run)}/cancel`, { cancel_mode: mode, waitMs: 0 }),
    find: async (at, ask) => {
      if ('request' in at) {
        const lookUp = get(`/v1/chat_status?${query}&usageRequestId=${encodeURIComponent(at.request)}`)
        return (await ask<{ run: { runId: string } | null }>(lookUp)).run?.runId ?? null
      }
      const lookUp = get(`/v1/chats?${query}&aliasChatId=${encodeURIComponent(at.chat)}`)
      return (await ask<{ data: { activeRunId: string | null }[] }>(lookUp)).data[0]?.activeRunId ?? null
    },
  }
}

type AgencyWays = { readonly resume: boolean; readonly historyOf: (chat: string) => readonly Message[] }

/** An agency of a self-hosted server, which keeps no history. */
export function agencyServer({ resume, historyOf }: AgencyWays): Server {
  return {
    name: '',
    resends: false,
    resumes: resume,
    start: ({ message, chat, agent, context, body }) =>
      post('/get_response_stream', {
        ...(chat !== undefined && { chat_history: historyOf(chat) }),
        recipient_agent: agent,
        user_context: context,
        ...body,
        message,
        ...(resume && { on_disconnect: 'continue' }),
      }),
    follow: (run, after) => get(`/runs/${encodeURIComponent(run)}/events?starting_after=${after}`),
    cancel: (run, mode) => post('/cancel_response_stream', { run_id: run, cancel_mode: mode }),
    // It knows runs by their own ids alone.
    find: async () => null,
  }
}
