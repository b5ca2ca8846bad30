import { addressOf, SERVER } from '../server/address.ts'
import { bodyOf, type Chat, completionOf, historyOf, messageOf, type Turn } from '../chats/chat.ts'

/** The request that began a turn, as anybody's program would send it. Tokens are named, never written out. */
type Request = {
  /** Where the client of `createClient` goes, and the route below it. */
  readonly url: string
  readonly route: string
  /** Of the platform. */
  readonly integration?: string
  readonly body: { readonly message: unknown }
  /** The variable that holds it; undefined: there is none. */
  readonly token: string | undefined
}

export function requestOf(chat: Chat, turn: Turn, needsToken: boolean): Request {
  if (chat.platform) return completionRequest(chat, chat.platform, turn)
  const before = { ...chat, turns: chat.turns.slice(0, chat.turns.indexOf(turn)) }
  const history = historyOf(before)
  const body = {
    message: messageOf(turn),
    ...(history.length > 0 && { chat_history: history }),
    ...(turn.agent !== null && { recipient_agent: turn.agent }),
    ...bodyOf(chat.options),
  }
  const url = addressOf(encodeURIComponent(chat.agency))
  return { url, route: 'get_response_stream', body, token: needsToken ? 'APP_TOKEN' : undefined }
}

/** The platform knows what was said before by the chat. */
function completionRequest(chat: Chat, platform: NonNullable<Chat['platform']>, turn: Turn): Request {
  const body = {
    message: turn.text,
    aliasChatId: chat.id,
    ...(turn.agent !== null && { agent: turn.agent }),
    ...(chat.options.context && { user_context: chat.options.context }),
    ...completionOf(platform, turn),
  }
  return { url: SERVER, route: 'get_completion_v2', integration: chat.agency, body, token: 'BUREAU_API_KEY' }
}

export function asCurl({ url, route, integration, body, token }: Request): string {
  const sent = integration === undefined ? body : { apiIntegrationId: integration, ...body }
  const lines = [
    `curl -N ${url}/${route}`,
    ...(token === undefined ? [] : [`-H "Authorization: Bearer $${token}"`]),
    `-H 'content-type: application/json'`,
    `-d ${shellQuoted(JSON.stringify(sent))}`,
  ]
  return lines.join(' \\\n  ')
}

export function asClientCode(request: Request): string {
  const { message, ...rest } = request.body
  const others =
    Object.keys(rest).length === 0 ? '' : `\n  body: ${JSON.stringify(rest, null, 2).replaceAll('\n', '\n  ')},`
  return `import { createClient } from '@bureau/client'

const client = ${clientCode(request)}

const run = client.stream({
  message: ${JSON.stringify(message, null, 2).replaceAll('\n', '\n  ')},${others}
})
for await (const text of run.text()) process.stdout.write(text)

const { usage } = await run.result
console.log(usage)
`
}

/** The client that a request needs. */
export function clientCode({ url, integration, token }: Omit<Request, 'body' | 'route'>): string {
  const members = [
    `url: '${url}'`,
    ...(integration === undefined ? [] : [`integration: '${integration}'`]),
    ...(token === undefined ? [] : [`token: process.env.${token}`]),
  ]
  return `createClient({ ${members.join(', ')} })`
}

const shellQuoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
