import { SendMessageRequest, StreamResponse, Task } from '@a2a-js/sdk'
import {
  type Client,
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client'
import type { Json } from '../support/test-server.ts'

export const BINDINGS = ['JSONRPC', 'HTTP+JSON'] as const
export type Binding = (typeof BINDINGS)[number]

/** The official client, which finds the address of the binding on the card of the agency, e.g. `…/a2a/solo`. */
export function connectTo(agencyUrl: string, binding: Binding, headers: Record<string, string> = {}): Promise<Client> {
  const fetchImpl: typeof fetch = (input, init) => {
    const merged = new Headers(init?.headers)
    for (const [name, value] of Object.entries(headers)) merged.set(name, value)
    return fetch(input, { ...init, headers: merged })
  }
  const factory = new ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports: [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })],
      preferredTransports: [binding],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
    }),
  )
  return factory.createFromUrl(`${agencyUrl}/.well-known/agent-card.json`, '')
}

export function say(content: string | object[], more: Json = {}): SendMessageRequest {
  const { configuration, ...rest } = more
  const parts = typeof content === 'string' ? [{ text: content }] : content
  const message = { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts, ...rest }
  return SendMessageRequest.fromJSON({ message, ...(configuration && { configuration }) })
}

/** A task in the JSON of the protocol. */
export const shown = (task: unknown): Json => Task.toJSON(task as Task)

export const send = async (client: Client, content: string | object[], more?: Json): Promise<Json> =>
  shown(await client.sendMessage(say(content, more)))

export async function updates(stream: AsyncIterable<StreamResponse>): Promise<Json[]> {
  const all: Json[] = []
  for await (const update of stream) all.push(StreamResponse.toJSON(update))
  return all
}
