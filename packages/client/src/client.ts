import type { GetCompletionV2Request, Message, RunRequest } from '@bureau/protocol'
import type { BureauError } from './error.ts'
import { type Part, Parts } from './parts.ts'
import { ask, askingOf } from './retry.ts'
import { Run } from './run.ts'
import type { RunOrigin, Ways } from './run-begin.ts'
import { type Histories, type RunStorage, RunStore, type StoredRun, type Unanswered } from './run-store.ts'
import type { Connection } from './send.ts'
import { agencyServer, type Ask, type HistoryPage, type Input, platformServer } from './server.ts'

type CommonOptions = Omit<Connection, 'url'> & {
  /** How long to wait before each further attempt, in milliseconds; none: a lost connection is an error at once. Default: ten times, from 0.1 s to 30 s. */
  readonly retryDelaysMs?: readonly number[] | undefined
  /** A connection that is silent for longer is taken for lost, in milliseconds. Default 40,000; servers send something every 15,000. */
  readonly silenceMs?: number | undefined
  /** Where the ids of unfinished runs are kept, for `attach` after a reload. Default: `localStorage` of a page, nothing elsewhere. */
  readonly storage?: RunStorage | false | undefined
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
  readonly resume?: boolean | undefined
  /** Where the messages of each chat are kept, because the server keeps none. Default: a new Map. */
  readonly histories?: Histories | undefined
}

/** What of an agency's type says who its agents are and what they answer with, by name. */
export type AnyAgency = { readonly '~answers'?: Readonly<Record<string, unknown>> }

type Answers<A extends AnyAgency> = NonNullable<A['~answers']>
type NameOf<A extends AnyAgency> = keyof Answers<A> & string

/** Sends messages to one agency and follows the answers. */
export type Client<Body = GetCompletionV2Request | RunRequest, A extends AnyAgency = AnyAgency> = {
  /** Sends a message, once. It is sent and answered whether anybody looks at the run or not. */
  stream<Name extends NameOf<A> = NameOf<A>>(message: string | Input<Body, Name>): Run<Answers<A>[Name]>
  /**
   * Follows a run that has begun before, from its first event, and never sends anything. Null when there is none: of a
   * chat, the unfinished one that this page or, on the platform, anybody has begun there. What a run of a self-hosted agency
   * says is in the history of its `chat` when that is named.
   *
   * @throws BureauError
   */
  attach(
    at:
      | { readonly run: string; readonly chat?: string | undefined }
      | { readonly request: string }
      | { readonly chat: string },
  ): Promise<Run | null>
  /**
   * What was sent last in a chat of a self-hosted agency, and is not answered. When `attach` finds no run of it, it has not
   * arrived, or its run is no longer kept: send it again, as the same `request` where no `run` had begun.
   */
  unanswered(chat: string): Unanswered | null
  /**
   * What was said in a chat, its latest part first; `cursor` of one part leads to the part before it.
   *
   * @throws BureauError
   */
  history(chat: string, cursor?: string): Promise<HistoryPage>
  /** Where the chats of a self-hosted agency are kept; undefined on the platform. */
  readonly histories?: Histories
}

/** What a run comes behind: this history and, when it goes on after approvals, its parts so far, `asked` behind so many messages. */
type Before = {
  readonly parts?: readonly Part[]
  readonly history: readonly Message[]
  readonly asked?: number | undefined
}

/**
 * A client of an integration of the platform, or of an agency of a self-hosted server. `createClient<typeof agency>(…)`
 * knows the names of its agents, and what they answer with.
 *
 * Runs on the platform, and with `resume` on a self-hosted server, outlive their connection: the client follows them
 * again by itself.
 *
 * @throws TypeError `url` is no address.
 */
export function createClient<A extends AnyAgency = AnyAgency>(
  options: PlatformOptions,
): Client<GetCompletionV2Request, A>
export function createClient<A extends AnyAgency = AnyAgency>(options: AgencyOptions): Client<RunRequest, A>
export function createClient(options: PlatformOptions | AgencyOptions): Client {
  return new AgencyClient(options)
}

class AgencyClient implements Client {
  readonly histories?: Histories
  readonly #ways: Ways
  readonly #store: RunStore

  constructor(options: PlatformOptions | AgencyOptions) {
    const { integration } = options
    if (integration === undefined) this.histories = options.histories ?? new Map<string, readonly Message[]>()
    const server = integration === undefined ? agencyServer(options.resume ?? false) : platformServer(integration)
    this.#ways = { ...askingOf(options), server }
    this.#store = new RunStore(`${this.#ways.connection.url}:${server.name}`, server.resumes && options.storage)
  }

  stream(message: string | Input): Run {
    const input: Input = typeof message === 'string' ? { message } : message
    const { request = randomId(), chat } = input
    const history = this.#historyOf(chat)
    return this.#open({ call: this.#ways.server.start(input, request, history), request }, input, { history })
  }

  async attach(at: Parameters<Client['attach']>[0]): Promise<Run | null> {
    const named: StoredRun & { readonly chat?: string | undefined } = at
    const { chat } = named
    const stored = chat === undefined ? named : this.#store.get(chat)
    const known = (named.run ?? stored.run) === stored.run ? stored : named
    const { request, message, before, asked } = known
    try {
      const id = known.run ?? (await this.#ways.server.find(request, chat ?? '', this.#ask))
      if (!id) return null
      const input = { message, chat } as Partial<Input>
      const history = this.#historyOf(chat).slice(0, before)
      const said = new Parts()
      said.add({ type: 'reset', new_messages: history.slice(asked ?? Infinity) })
      const run = this.#open({ run: id }, input, { parts: said.all, history, asked })
      await run.started
      return run
    } catch (error) {
      if (!isGone(error as BureauError)) throw error
      if (chat === undefined || named.run || (known.run ?? request) == null || this.unanswered(chat)) return null
      // What was kept is gone at the server; somebody else may have begun another run in the chat.
      this.#store.remove(chat, known)
      return this.attach(at)
    }
  }

  unanswered(chat: string): Unanswered | null {
    const sent = this.#store.get(chat)
    // Of a run that waits, the history has the message already.
    const isAnswered = sent.message === undefined || this.#historyOf(chat).length > (sent.before ?? 0)
    return isAnswered ? null : sent
  }

  async history(chat: string, cursor?: string): Promise<HistoryPage> {
    const { server } = this.#ways
    if (server.history) return server.history(chat, cursor, this.#ask)
    // What a run that waits has said is in the history already, and comes again when the run is attached to.
    const { run = null, before = 0, asked = before } = this.#store.get(chat)
    const entries = this.#historyOf(chat).map((item, at) => ({ item, run: at < asked ? null : run, error: null }))
    return { entries, cursor: null }
  }

  /** Remembers the run of a chat before its first byte is sent, until it is over. */
  #open(from: RunOrigin, input: Partial<Input>, before: Before): Run {
    const { chat, signal, message } = input
    const sent = this.histories && { message, before: before.history.length, asked: before.asked }
    const remember = ({ request, run }: StoredRun): void => {
      if (chat !== undefined) this.#store.set(chat, { request, run, ...sent })
    }
    const found = this.#store.get(chat!)
    remember(from)
    return new Run(this.#ways, {
      from,
      message,
      before: before.parts,
      signal,
      onStarted: remember,
      onEnded: (ended, messages, waits) => {
        if (chat === undefined) return
        if (!waits) this.#store.remove(chat, ended, found)
        // The chat may have other messages meanwhile, and another page may have kept those of this run.
        const said = this.#historyOf(chat)
        const known = said.map((each) => JSON.stringify(each))
        this.histories?.set(chat, [...said, ...messages.filter((each) => !known.includes(JSON.stringify(each)))])
      },
      goOn: (run, result, after, decisions) => {
        const history = [...before.history, ...result.messages]
        const request = randomId()
        const { message: _answered, ...rest } = input
        const next = this.#ways.server.goOn({ run: result.run, after, input: rest, history }, decisions, request)
        const { asked = before.history.length } = before
        return this.#open({ request, ...next }, rest, { parts: run.parts, history, asked })
      },
    })
  }

  readonly #ask: Ask = (call) => ask(this.#ways, call)

  #historyOf(chat = ''): readonly Message[] {
    return this.histories?.get(chat) ?? []
  }
}

/** The server knows nothing of a run or chat. */
function isGone({ status, code }: BureauError): boolean {
  return status === 404 && code !== 'integration_not_found'
}

/** 128 random bits, fit for the name of a chat that nobody else has. `crypto.randomUUID` is missing in pages that came over plain HTTP. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
