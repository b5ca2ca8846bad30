import { type Message, SseParser, type Usage } from '@bureau/protocol'
import { CommandError } from '../command-error.ts'

export type ChatTarget = {
  /** Where the server is, e.g. `http://127.0.0.1:8000`. */
  readonly url: string
  readonly token: string | undefined
  readonly agency: string
}

type Answer = {
  readonly newMessages: readonly Message[]
  readonly cancelled: boolean
  readonly usage: Usage | null
}

/** What a person wants to see while an agency answers. */
type ChatObserver = {
  /** Text of the agent that speaks with the user. */
  readonly onText: (text: string) => void
  /** Something else that happened, in a few words. */
  readonly onNote: (note: string) => void
  /** The run's id, with which it can be cancelled. */
  readonly onRun: (runId: string) => void
}

/**
 * The names of the agencies that a server serves, from its API description.
 *
 * @throws CommandError the server cannot be reached, or refuses.
 */
export async function listAgencies(url: string, token: string | undefined): Promise<string[]> {
  const response = await fetch(`${url}/openapi.json`, { headers: authorization(token) }).catch(() => undefined)
  if (!response) throw new CommandError(`Nothing answers at ${url}. Start a server there, or name another by --url.`)
  if (!response.ok) throw new CommandError(`${url} answered with ${response.status}: ${await errorOf(response)}`)
  const { paths } = (await response.json()) as { paths: Record<string, unknown> }
  return Object.keys(paths).flatMap((path) => /^\/([^/]+)\/get_metadata$/.exec(path)?.[1] ?? [])
}

/**
 * Sends a message with the conversation so far and follows the answer to its end.
 *
 * @throws Error the server refuses, or the stream breaks off.
 */
export async function askAgency(
  target: ChatTarget,
  request: { readonly message: string; readonly chat_history: readonly Message[] },
  observer: ChatObserver,
): Promise<Answer> {
  const response = await post(target, 'get_response_stream', request)
  const parser = new SseParser()
  const decoder = new TextDecoder()
  let answer: Answer | undefined
  for await (const chunk of response.body!) {
    for (const { event, data } of parser.push(decoder.decode(chunk, { stream: true }))) {
      if (event === 'meta') observer.onRun((JSON.parse(data) as { run_id: string }).run_id)
      else if (event === 'messages') answer = readAnswer(data)
      else if (event === null) showEvent(JSON.parse(data) as Frame, observer)
    }
  }
  if (!answer) throw new Error('the stream broke off')
  return answer
}

export async function cancelRun(target: ChatTarget, runId: string): Promise<void> {
  // A run that is gone already is as good as cancelled.
  await post(target, 'cancel_response_stream', { run_id: runId }).catch(() => undefined)
}

type Frame = { error?: string; data?: Spoken }
type Spoken = {
  type: string
  agent: string
  callerAgent: string | null
  content?: string
  name?: string
  data?: { type: string; delta?: string }
  item?: { raw_item?: { name?: string } }
}

function showEvent({ error, data }: Frame, { onText, onNote }: ChatObserver): void {
  if (error !== undefined) return onNote(error)
  if (data?.type === 'error') return onNote(data.content ?? 'the run failed')
  if (data?.data?.type === 'response.output_text.delta' && data.callerAgent === null)
    return onText(data.data.delta ?? '')
  if (data?.name === 'tool_called') onNote(`${data.agent} uses ${data.item?.raw_item?.name ?? 'a tool'}`)
}

function readAnswer(data: string): Answer {
  const { new_messages, cancelled, usage } = JSON.parse(data) as {
    new_messages: Message[]
    cancelled?: boolean
    usage?: Usage
  }
  return { newMessages: new_messages, cancelled: cancelled ?? false, usage: usage ?? null }
}

async function post(target: ChatTarget, route: string, body: unknown): Promise<Response> {
  const response = await fetch(`${target.url}/${target.agency}/${route}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...authorization(target.token) },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${response.status}: ${await errorOf(response)}`)
  return response
}

function authorization(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` }
}

async function errorOf(response: Response): Promise<string> {
  const text = await response.text()
  try {
    return (JSON.parse(text) as { error?: string }).error ?? text
  } catch {
    return text.slice(0, 200)
  }
}
