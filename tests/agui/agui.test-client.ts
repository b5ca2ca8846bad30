import { type AGUIEvent, HttpAgent, type Message, type RunAgentParameters } from '@ag-ui/client'
import { type Json, startTestServer, type TestServer } from '../support/test-server.ts'

type AguiEvents = readonly Json[]

/** What the official client saw of one run: every event that passed its checks, and the conversation it ended with. */
type AguiOutcome = {
  readonly events: AguiEvents
  readonly types: readonly string[]
  readonly messages: readonly Message[]
  readonly newMessages: readonly Message[]
  readonly result: unknown
  readonly warnings: readonly string[]
}

/** A server in AG-UI mode. */
export function startAguiServer(options: Parameters<typeof startTestServer>[0] = {}): Promise<TestServer> {
  return startTestServer({ enableAgui: true, ...options })
}

type AgentSetUp = {
  readonly server: TestServer
  readonly agency?: string
  readonly route?: string
  readonly messages?: readonly Message[]
  readonly headers?: Record<string, string>
}

/** The official client, talking to an agency. */
export function aguiAgent({
  server,
  agency = 'solo',
  route = 'get_response_stream',
  messages = [],
  headers = {},
}: AgentSetUp): HttpAgent {
  const url = `${server.url}/${agency}/${route}`
  return new HttpAgent({ url, headers, threadId: 'thread-1', initialMessages: [...messages] })
}

/** Sends a message as the official client does, or goes on without one. @throws what the client finds illegal in the stream */
export async function say(agent: HttpAgent, text: string | null, more: RunAgentParameters = {}): Promise<AguiOutcome> {
  const events: AGUIEvent[] = []
  const warnings: string[] = []
  const original = console.warn
  console.warn = (...parts: unknown[]) => void warnings.push(parts.map(String).join(' '))
  try {
    if (text !== null) agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: text })
    const { result, newMessages } = await agent.runAgent(more, {
      onEvent: ({ event }) => void events.push(event as never),
    })
    const types = events.map(({ type }) => type as string)
    return { events, types, messages: agent.messages, newMessages, result, warnings }
  } finally {
    console.warn = original
  }
}

/** A complete request body, for requests that the client would not make. */
export function aguiBody(fields: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    threadId: 'thread-1',
    runId: 'run-1',
    state: null,
    messages: [{ id: 'u1', role: 'user', content: 'hi' }],
    tools: [],
    context: [],
    forwardedProps: null,
    ...fields,
  }
}
