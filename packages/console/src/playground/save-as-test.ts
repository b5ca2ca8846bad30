import type { Part } from '@bureau/client'
import { type Chat, inputOf, type Turn } from '../chats/chat.ts'
import { clientCode } from './copy-request.ts'
import { addressOf, SERVER } from '../server/address.ts'

/** What a turn of a saved test expects. Members that are taken out are not compared. */
type SavedTurn = {
  readonly send: object
  readonly status: Turn['status']
  /** Calls of tools, and messages to other agents, in order. */
  readonly calls: readonly { readonly agent: string; readonly name: string; readonly arguments?: unknown }[]
  /** Texts that the answer must hold. */
  readonly contains: readonly string[]
  /** What was answered; for people. */
  readonly answered: string
}

/** A file for `node --test` that says the same to the server again, and compares what the agents do. */
export function testOf(chat: Chat, needsToken: boolean): { readonly name: string; readonly text: string } {
  const name = `${slug(chat.title)}.test.ts`
  const turns = chat.turns.filter(({ status }) => status === 'completed').map((turn) => savedTurn(chat, turn))
  const text = `// A chat with ${chat.agency}, saved from the console. The server must be running: node --test ${name}
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient, type Part } from '@bureau/client'

// "calls" are compared in order, "contains" are texts that the answer must hold, "answered" is there to be read.
// Take out what may differ: a member that is missing is not compared.
const TURNS: readonly Turn[] = ${JSON.stringify(turns, null, 2)}
${chat.earlier.length > 0 && !chat.platform ? `\nconst EARLIER = ${JSON.stringify(chat.earlier, null, 2)}\n` : ''}
test(${JSON.stringify(chat.title)}, async () => {
  const client = ${clientCode(connectionOf(chat, needsToken))}
  const chat = \`test-\${crypto.randomUUID()}\`
${chat.earlier.length > 0 && !chat.platform ? '  client.histories?.set(chat, EARLIER)\n' : ''}\
  for (const { send, status, calls, contains } of TURNS) {
    const run = client.stream({ ...send, chat })
    const result = await run.result
    if (status !== undefined) assert.equal(result.status, status)
    if (calls !== undefined) assert.deepEqual(callsOf(run.parts, calls), calls)
    const answer = run.parts.map((part) => (part.type === 'text' && part.parent === null ? part.text : '')).join('')
    for (const text of contains ?? []) assert.ok(answer.includes(text), \`\${text} is not in: \${answer}\`)
  }
})

type Call = { readonly agent?: string; readonly name?: string; readonly arguments?: unknown }

type Turn = {
  readonly send: { readonly message: string }
  readonly status?: string
  readonly calls?: readonly Call[]
  readonly contains?: readonly string[]
  readonly answered?: string
}

/** The calls that were made, with what is compared of each. */
function callsOf(parts: readonly Part[], expected: readonly Call[]): Call[] {
  const made = parts.flatMap((part) => {
    if (part.type !== 'tool' && part.type !== 'agent') return []
    return [{ agent: part.agent, name: part.name, arguments: part.input }]
  })
  return made.map((call, at) => {
    const compared = Object.keys(expected[at] ?? call)
    return Object.fromEntries(Object.entries(call).filter(([name]) => compared.includes(name)))
  })
}
`
  return { name, text }
}

function connectionOf({ agency, platform }: Chat, needsToken: boolean) {
  return platform
    ? { url: SERVER, integration: agency, token: 'BUREAU_API_KEY' }
    : { url: addressOf(encodeURIComponent(agency)), token: needsToken ? 'APP_TOKEN' : undefined }
}

function savedTurn(chat: Chat, turn: Turn): SavedTurn {
  const { chat: _, ...send } = inputOf({ ...chat, agent: turn.agent }, turn)
  return {
    send,
    status: turn.status,
    calls: turn.parts.flatMap(callOf),
    contains: [],
    answered: turn.parts
      .flatMap((part) => (part.type === 'text' && part.parent === null ? [part.text] : []))
      .join('\n'),
  }
}

/** What an agent writes to another differs from run to run more than what it calls. */
function callOf(part: Part): SavedTurn['calls'] {
  if (part.type === 'agent') return [{ agent: part.agent, name: part.name }]
  return part.type === 'tool' ? [{ agent: part.agent, name: part.name, arguments: part.input }] : []
}

const slug = (title: string): string =>
  title
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 40) || 'chat'
