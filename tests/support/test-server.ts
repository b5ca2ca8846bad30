import type { AddressInfo } from 'node:net'
import { Agency, Agent, type AgentOptions } from '@bureau/framework'
import { type SseFrame, SseParser } from '@bureau/protocol'
import { createApp, loadConfig, type ServerOptions } from '@bureau/server'
import { onTestFinished } from 'vitest'
import { type FakeProvider, type FakeProviderOptions, startFakeProvider } from './fake-provider.ts'

// oxlint-disable-next-line no-explicit-any -- answers are asserted on, member by member
export type Json = any

/** Closes something when the test has ended: the last first, because it may need what was there before. */
export function closeAfterTest(close: () => Promise<unknown>): void {
  // Not a hook of this module: files that share a worker share their modules, and it would be that of the first one only.
  onTestFinished(async () => void (await close()))
}

export type TestServer = {
  readonly url: string
  readonly provider: FakeProvider
  get(path: string, headers?: Record<string, string>): Promise<TestResponse>
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<TestResponse>
  stream(path: string, body: unknown, options?: StreamOptions): Promise<TestStream>
  /** Resolves when the next request to this path has reached its route. */
  handled(path: string): Promise<void>
  /** As on a stop. It need not be called: every server is closed after its test. */
  close(): Promise<void>
}

type TestResponse = {
  readonly status: number
  readonly headers: Headers
  readonly body: Json
  readonly text: string
}

type StreamOptions = { readonly headers?: Record<string, string>; readonly signal?: AbortSignal }

type ServerSetUp = Partial<ServerOptions> & {
  readonly env?: Record<string, string>
  readonly provider?: FakeProviderOptions
}

/** A real server on a loopback port, with a stand-in provider of its own; both are closed after the test. */
export async function startTestServer(options: ServerSetUp = {}): Promise<TestServer> {
  const { env, provider: providerOptions, ...serverOptions } = options
  const provider = await startFakeProvider(providerOptions)
  closeAfterTest(() => provider.close())
  const config = loadConfig({ OPENAI_API_KEY: 'sk-server', OPENAI_BASE_URL: provider.baseUrl, ...env })
  const app = await createApp({ logLevel: 'silent', ...serverOptions }, config)
  const handled = new Map<string, () => void>()
  // The route runs right after this hook; the next turn of the event loop finds its synchronous part done.
  app.addHook('preHandler', async (request) => void setImmediate(() => handled.get(request.url)?.()))
  await app.listen({ host: '127.0.0.1', port: 0 })
  closeAfterTest(async () => {
    app.server.closeAllConnections()
    await app.close()
  })
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  return {
    url,
    provider,
    get: (path, headers = {}) => read(fetch(url + path, { headers })),
    post: (path, body, headers = {}) => read(fetch(url + path, postOf(body, headers))),
    stream: async (path, body, { headers = {}, signal } = {}) => {
      const response = await fetch(url + path, { ...postOf(body, headers), ...(signal && { signal }) })
      return new TestStream(response)
    },
    handled: (path) => new Promise((resolve) => handled.set(path, resolve)),
    close: () => app.close(),
  }
}

/** One agent named `Solo` in the agency `solo`. */
export function soloAgency(options: Partial<AgentOptions> = {}): { solo: Agency } {
  const agent = new Agent({
    name: 'Solo',
    instructions: 'You are the secret instructions.',
    model: 'gpt-test',
    ...options,
  })
  return { solo: new Agency({ name: 'Solo Agency', entryPoint: agent }) }
}

function postOf(body: unknown, headers: Record<string, string>): RequestInit {
  const sent = typeof body === 'string' || body instanceof Buffer ? body : JSON.stringify(body)
  return { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: sent }
}

async function read(answer: Promise<Response>): Promise<TestResponse> {
  const response = await answer
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.includes('json') ?? false
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : undefined, text }
}

/** A streamed answer, read frame by frame or whole. */
export class TestStream {
  readonly response: Response
  readonly frames: SseFrame[] = []
  /** Everything received so far, comments included. */
  text = ''
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  readonly #parser = new SseParser()
  readonly #decoder = new TextDecoder()

  constructor(response: Response) {
    this.response = response
    this.#reader = response.body?.getReader()
  }

  /** Reads until a frame fits, and returns it. */
  async until(fits: (frame: SseFrame) => boolean): Promise<SseFrame> {
    for (let at = 0; ;) {
      for (; at < this.frames.length; at++) if (fits(this.frames[at]!)) return this.frames[at]!
      if (!(await this.#pull())) throw new Error(`the stream ended before the frame came:\n${this.text.slice(-2000)}`)
    }
  }

  untilText(part: string): Promise<SseFrame> {
    return this.until((frame) => frame.data.includes(part))
  }

  /** Reads until a comment has come. */
  async untilComment(): Promise<void> {
    while (!/^:.*\n\n/m.test(this.text)) if (!(await this.#pull())) throw new Error('the stream ended')
  }

  /** Reads to the end. */
  async all(): Promise<this> {
    while (await this.#pull()) {
      // Frames collect in `frames`.
    }
    return this
  }

  async #pull(): Promise<boolean> {
    const next = await this.#reader?.read()
    if (!next || next.done) return false
    const text = this.#decoder.decode(next.value, { stream: true })
    this.text += text
    this.frames.push(...this.#parser.push(text))
    return true
  }

  /** Hangs up, as a closed browser tab does. */
  async hangUp(): Promise<void> {
    await this.#reader?.cancel()
  }

  /** The platform says it in a header, both servers in the first frame. */
  get runId(): string {
    return this.response.headers.get('x-agent-run-id') ?? this.meta.run_id
  }

  /** Of the platform. */
  get chatId(): string {
    return this.response.headers.get('x-chat-id') ?? ''
  }

  get meta(): Json {
    return JSON.parse(this.frames.find((frame) => frame.event === 'meta')!.data)
  }

  /** The numbers of the frames, in order. */
  get ids(): number[] {
    return this.frames.flatMap(({ id }) => (id === null ? [] : [Number(id)]))
  }

  /** The payloads of the unnamed data frames. */
  get events(): Json[] {
    return this.frames.flatMap((frame) =>
      frame.event === null ? [JSON.parse(frame.data).data ?? JSON.parse(frame.data)] : [],
    )
  }

  /** The payload of the `messages` frame. */
  get result(): Json {
    return JSON.parse(this.frames.find((frame) => frame.event === 'messages')!.data)
  }

  /** What the model said in pieces. */
  get spoken(): string {
    return this.events
      .filter((event) => event.data?.type === 'response.output_text.delta')
      .map((event) => event.data.delta)
      .join('')
  }

  /** What happened, in short words: `meta`, `agent:Solo`, raw event types, run item names, `messages`, `end`. */
  get outline(): string[] {
    return this.frames.map((frame) => {
      if (frame.event !== null) return frame.event
      const event = JSON.parse(frame.data).data ?? JSON.parse(frame.data)
      if (event.type === 'raw_response_event') return event.data.type.replace(/^response\./, '')
      if (event.type === 'run_item_stream_event') return event.name
      if (event.type === 'agent_updated_stream_event') return `agent:${event.new_agent.name}`
      return event.type ?? 'error'
    })
  }
}
