import { HttpAgent as Client1_0_0 } from '@ag-ui/client'
import { HttpAgent as Client0_0_44 } from 'ag-ui-client-0.0.44'
import { HttpAgent as Client0_0_59 } from 'ag-ui-client-0.0.59'
import type { Json } from '../support/test-server.ts'

/** What the clients of all versions have in common. */
export type Client = {
  messages: Json[]
  state: Json
  addMessage(message: Json): void
  runAgent(input: object, subscriber: { onEvent: (seen: { event: Json }) => void }): Promise<unknown>
}

type ClientClass = new (options: {
  url: string
  threadId: string
  headers?: Record<string, string>
  initialState?: Json
}) => Client

/** CopilotKit up to 1.75 comes with 0.0.59. */
export const CLIENTS = [
  { version: '0.0.44', knowsAll: false, Agent: Client0_0_44 as unknown as ClientClass },
  { version: '0.0.59', knowsAll: false, Agent: Client0_0_59 as unknown as ClientClass },
  { version: '1.0.0', knowsAll: true, Agent: Client1_0_0 as unknown as ClientClass },
]

type Seen = { readonly events: Json[]; readonly types: string[]; readonly messages: Json[]; readonly last: Json }

/** One run of a client: every event that it took, and the conversation that it ended with. */
export async function run(agent: Client, content: string | null, more: object = {}): Promise<Seen> {
  const events: Json[] = []
  if (content !== null) agent.addMessage({ id: crypto.randomUUID(), role: 'user', content })
  await agent.runAgent(more, { onEvent: ({ event }) => void events.push(event) })
  return { events, types: events.map(({ type }) => type), messages: agent.messages, last: events.at(-1) }
}

export const result = (toolCallId: string, content: string): Json => ({
  id: `r_${toolCallId}`,
  role: 'tool',
  toolCallId,
  content,
})
