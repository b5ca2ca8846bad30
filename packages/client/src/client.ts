import type { GetCompletionV2Request, Message, RunRequest } from '@bureau/protocol'
import { BureauError } from './error.ts'
import { ask } from './retry.ts'
import { Run, type RunOrigin, type Ways } from './run.ts'
import { type RunStorage, RunStore, type StoredRun } from './run-store.ts'
import type { Connection } from './send.ts'
import { agencyServer, type Input, platformServer } from './server.ts'

type CommonOptions = Omit<Connection, 'url'> & {
  /** How long to wait before each further attempt, in milliseconds; none: a lost connection is an error at once. Default: ten times, from 0.1 s to 30 s. */
  readonly retryDelaysMs?: readonly number[]
  /** A connection that is silent for longer is taken for lost, in milliseconds. Default 40,000; servers send something every 15,000. */
  readonly silenceMs?: number
  /** Where the ids of unfinished runs are kept, for `attach` after a reload. Default: `localStorage` of a page, nothing elsewhere. */
  readonly storage?: RunStorage | false
}

/** An integration of the hosted platform. */
export type PlatformOptions = CommonOptions & {
  /** The platform, e.g. `https://agents.example.com`. */
  readonly url: string | URL
  /** The id of the integration. */
  readonly integration: string
}

/** An agency of a self-hosted server. */
export type AgencyOptions = CommonOptions & {
  /** The agency, e.g. `http://127.0.0.1:8000/support`. */
  readonly url: string | URL
  readonly integration?: undefined
  /** True: runs go on without their client, and are followed again. Default false: a lost connection stops the run. */
  readonly resume?: boolean
  /** Where the messages of each chat are kept, because the server keeps none. Default: a new Map. */
  readonly histories?: Pick<Map<string, readonly Message[]>, 'get' | 'set'>
}

/** Sends messages to one agency and follows the answers. */
export type Client<Body = GetCompletionV2Request | RunRequest> = {
  /** Sends a message, once. It is sent and answered whether anybody looks at the run or not. */
  stream(message: string | Input<Body>): Run
  /**
   * Follows a run that has begun before, from its first event, and never sends anything. Null when there is none: of a
   * chat, the unfinished one that this page or, on the platform, anybody has begun there.
   *
   * @throws BureauError
   */
  attach(at: { readonly run: string } | { readonly request: string } | { readonly chat: string }): Promise<Run | null>
}

const DELAYS_MS = [100, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 30_000, 30_000]
const SILENCE_MS = 40_000

/**
 * A client of an integration of the platform, or of an agency of a self-hosted server.
 *
 * Runs on the platform, and with `resume` on a self-hosted server, outlive their connection: the client follows them
 * again by itself.
 */
export function createClient(options: PlatformOptions): Client<GetCompletionV2Request>
export function createClient(options: AgencyOptions): Client<RunRequest>
export function createClient(options: PlatformOptions | AgencyOptions): Client {
  const { retryDelaysMs = DELAYS_MS, silenceMs = SILENCE_MS } = options
  const connection = { ...options, url: String(options.url).replace(/\/+$/, '') }
  const histories =
    options.integration === undefined ? (options.histories ?? new Map<string, readonly Message[]>()) : undefined
  const server =
    options.integration === undefined
      ? agencyServer({ resume: options.resume ?? false, historyOf: (chat) => histories?.get(chat) ?? [] })
      : platformServer(options.integration)
  const ways: Ways = { connection, server, retryDelaysMs, silenceMs }
  const store = new RunStore(server.resumes && options.storage, `${connection.url}:${server.name}`)

  /** Remembers the run of a chat before its first byte is sent, until it is over. */
  const open = (from: RunOrigin, { chat, signal }: Pick<Input, 'chat' | 'signal'>): Run => {
    if (chat !== undefined) store.set(chat, from)
    return new Run(ways, {
      from,
      signal,
      onStarted: (started) => chat !== undefined && store.set(chat, started),
      onEnded: (ended, messages) => {
        if (chat === undefined) return
        store.remove(chat, ended)
        histories?.set(chat, [...(histories.get(chat) ?? []), ...messages])
      },
    })
  }

  return {
    stream(message) {
      const input: Input = typeof message === 'string' ? { message } : message
      const { request = randomId() } = input
      return open({ call: server.start(input, request), request }, input)
    },

    async attach(at) {
      const chat = 'chat' in at ? at.chat : undefined
      const known: StoredRun = 'chat' in at ? store.get(at.chat) : at
      try {
        const { request } = known
        const id =
          known.run ??
          (await server.find(request == null ? { chat: chat ?? '' } : { request }, (call) => ask(ways, call)))
        if (id === null) return null
        const run = open({ run: id }, chat === undefined ? {} : { chat })
        await run.started
        return run
      } catch (error) {
        if (!(error instanceof BureauError) || error.status !== 404 || error.code === 'integration_not_found')
          throw error
        if (chat === undefined || (known.run ?? known.request) == null) return null
        // What was kept is gone at the server; somebody else may have begun another run in the chat.
        store.remove(chat, known)
        return this.attach(at)
      }
    },
  }
}

/** 128 random bits. `crypto.randomUUID` is missing in pages that came over plain HTTP. */
function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
