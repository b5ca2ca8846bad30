import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { startHttpServer } from '../../../tests/support/http-server.ts'
import { createClient } from './client.ts'
import type { Run } from './run.ts'
import type { RunStorage } from './run-store.ts'

type Received = {
  readonly method: string
  readonly path: string
  readonly authorization: string | undefined
  readonly body: Record<string, unknown>
}

/** What becomes of one request instead of its whole answer. */
type Fate =
  /** Sends these frames, and breaks off after so many bytes of them. Default: the run of the server, whole. */
  | { readonly frames?: readonly string[]; readonly cutAfter?: number; readonly status?: undefined }
  | { readonly status: number; readonly body?: object; readonly headers?: Record<string, string> }
  | 'lost'
  | 'silent'

type ScriptedServer = {
  readonly url: string
  readonly requests: readonly Received[]
  /** What becomes of the next requests but cancels, in turn. Those after them are answered whole. */
  next(...fates: readonly Fate[]): void
  /** Loses the answer to the next cancel. */
  loseCancel(): void
}

/**
 * A server of one run, whose frames are written down: each has the number of its place, from 1 on. It speaks the routes
 * of both servers.
 */
export async function startScriptedServer(frames: readonly string[]): Promise<ScriptedServer> {
  const requests: Received[] = []
  const fates: Fate[] = []
  let losesCancel = false
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = '', url: path = '', headers } = request
    const body = await text(request)
    requests.push({ method, path, authorization: headers.authorization, body: JSON.parse(body === '' ? '{}' : body) })
    if (path.includes('cancel')) {
      if (losesCancel) request.socket.destroy()
      losesCancel = false
      return void response.end('{}')
    }
    const fate = fates.shift()
    if (fate === 'silent') return
    if (fate === 'lost') return void request.socket.destroy()
    if (fate?.status !== undefined) return refuse(response, fate)
    const { frames: sent = frames, cutAfter } = { ...fate }
    const bytes = Buffer.from(framesAfter(sent, Number(/starting_after=(\d+)/.exec(path)?.[1] ?? 0)))
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    if (cutAfter === undefined) return void response.end(bytes)
    response.write(bytes.subarray(0, cutAfter), () => request.socket.end(() => request.socket.destroy()))
  }
  const url = await startHttpServer((request, response) => void serve(request, response))
  return { url, requests, next: (...added) => void fates.push(...added), loseCancel: () => (losesCancel = true) }
}

function refuse(response: ServerResponse, { status, body = {}, headers }: Extract<Fate, { status: number }>): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

export const META = 'event: meta\ndata: {"run_id":"run-1","chatId":"chat-1"}\n\n'

/** What a reader gets who has the first `after` frames. */
export function framesAfter(frames: readonly string[], after: number): string {
  return (
    META +
    frames
      .map((frame, at) => `id: ${at + 1}\n${frame}`)
      .slice(after)
      .join('')
  )
}

const SPEAKER = { agent: 'Solo', callerAgent: null, agent_run_id: 'stay-1' }

const eventFrame = (event: object): string => `data: ${JSON.stringify({ data: { ...event, ...SPEAKER } })}\n\n`

const deltaFrame = (delta: string): string =>
  eventFrame({ type: 'raw_response_event', data: { type: 'response.output_text.delta', item_id: 'msg-1', delta } })

const END = 'event: end\ndata: [DONE]\n\n'

/** A run that says these words to the user. */
export function framesOf(words: readonly string[]): string[] {
  const content = [{ type: 'output_text', text: words.join('') }]
  const message = { id: 'msg-1', type: 'message', role: 'assistant', content, ...SPEAKER }
  const result = { new_messages: [message], run_id: 'run-1', usage: null }
  return [
    'data: {"data":null}\n\n',
    ...words.map(deltaFrame),
    eventFrame({ type: 'run_item_stream_event', name: 'message_output_created', item: { raw_item: message } }),
    `event: messages\ndata: ${JSON.stringify(result)}\n\n`,
    END,
  ]
}

const WORDS = ['Hé', 'llo ', '🌍']
export const FRAMES = framesOf(WORDS)
export const SOON = [0, 0, 0, 0]

export const KINDS = ['platform', 'self-hosted server'] as const

/** A client of either kind, which resumes. */
export function clientOf(
  kind: (typeof KINDS)[number],
  url: string,
  options: { storage?: RunStorage; silenceMs?: number } = {},
) {
  const common = { url, retryDelaysMs: SOON, ...options }
  return kind === 'platform'
    ? createClient({ ...common, integration: 'int-1' })
    : createClient({ ...common, resume: true })
}

/** The events of a run, in short. */
export async function heard(run: Run): Promise<string[]> {
  const seen: string[] = []
  for await (const event of run) {
    seen.push(event.type === 'raw_response_event' ? `${event.data.type} ${event.data.delta}` : event.type)
  }
  return seen
}

export const EXPECTED = [...WORDS.map((word) => `response.output_text.delta ${word}`), 'run_item_stream_event']
