import { addressOf } from '../server/address.ts'
import { bodyOf, type Chat, historyOf, messageOf, type Turn } from '../chats/chat.ts'

/** The request that began a turn, as anybody's program would send it. Tokens are named, never written out. */
type Request = { readonly url: string; readonly body: object; readonly needsToken: boolean }

export function requestOf(chat: Chat, turn: Turn, needsToken: boolean): Request {
  const before = { ...chat, turns: chat.turns.slice(0, chat.turns.indexOf(turn)) }
  const history = historyOf(before)
  const body = {
    message: messageOf(turn),
    ...(history.length > 0 && { chat_history: history }),
    ...(turn.agent !== null && { recipient_agent: turn.agent }),
    ...bodyOf(chat.options),
  }
  return { url: addressOf(encodeURIComponent(chat.agency)), body, needsToken }
}

export function asCurl({ url, body, needsToken }: Request): string {
  const lines = [
    `curl -N ${url}/get_response_stream`,
    ...(needsToken ? [`-H "Authorization: Bearer $APP_TOKEN"`] : []),
    `-H 'content-type: application/json'`,
    `-d ${shellQuoted(JSON.stringify(body))}`,
  ]
  return lines.join(' \\\n  ')
}

export function asClientCode({ url, body, needsToken }: Request): string {
  const { message, ...rest } = body as { message: unknown }
  const token = needsToken ? `, token: process.env.APP_TOKEN` : ''
  const others =
    Object.keys(rest).length === 0 ? '' : `\n  body: ${JSON.stringify(rest, null, 2).replaceAll('\n', '\n  ')},`
  return `import { createClient } from '@bureau/client'

const client = createClient({ url: '${url}'${token} })

const run = client.stream({
  message: ${JSON.stringify(message, null, 2).replaceAll('\n', '\n  ')},${others}
})
for await (const text of run.text()) process.stdout.write(text)

const { usage } = await run.result
console.log(usage)
`
}

const shellQuoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
