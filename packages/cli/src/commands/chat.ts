import { createInterface, type Interface } from 'node:readline'
import { styleText } from 'node:util'
import { Command } from 'commander'
import { type Client, createClient, type StreamEvent } from '@bureau/client'
import { ConfigError } from '@bureau/protocol'
import { type ApprovalAnswer, decideCalls, type WaitingCall } from '../chat/decide-calls.ts'
import { listAgencies } from '../chat/list-agencies.ts'

type ChatFlags = { readonly url: string; readonly agency?: string; readonly token?: string }

/** `bureau chat`: talk to an agency in the terminal. Ctrl-C stops an answer; Ctrl-D ends the chat. */
export const chatCommand = new Command('chat')
  .description('Talk to an agency. Ctrl-C stops an answer, Ctrl-D ends the chat.')
  .option('--url <address>', 'where the server is', 'http://127.0.0.1:8000')
  .option('--agency <name>', 'the agency to talk to (default: the first one)')
  .option('--token <token>', 'the server token (default: the first in APP_TOKEN)')
  .addHelpText('after', '\nExample:\n  $ bureau chat --agency support')
  .action(async (flags: ChatFlags) => {
    const url = flags.url.replace(/\/$/, '')
    const token = flags.token ?? /\S+/.exec(process.env['APP_TOKEN'] ?? '')?.[0]
    const agency = flags.agency ?? (await listAgencies(url, token))[0]
    if (agency === undefined) throw new ConfigError(`${url} serves no agency.`)
    console.error(`Talking to ${agency}.`)
    await chat(createClient({ url: `${url}/${agency}`, ...(token !== undefined && { token }) }))
  })

async function chat(client: Client): Promise<void> {
  const lines = createInterface({ input: process.stdin, output: process.stderr, prompt: styleText('cyan', 'you> ') })
  let open = true // Input that comes from a file is at its end before the answers are.
  lines.once('close', () => (open = false))
  lines.prompt()
  const input = lines[Symbol.asyncIterator]()
  for (let line = await input.next(); line.done !== true; line = await input.next()) {
    if (line.value.trim() !== '') await turn(client, line.value, { lines, input })
    if (open) lines.prompt()
  }
}

type Terminal = { readonly lines: Interface; readonly input: AsyncIterator<string> }

/** One message and its answer, with whatever the user has to decide in between. */
async function turn(client: Client, message: string, { lines, input }: Terminal): Promise<void> {
  let waiting = await answer(client, { message }, lines)
  while (waiting.length > 0) {
    const approvals = await decideCalls(waiting, lines, input)
    if (approvals.length === 0) return
    waiting = await answer(client, { message: [], body: { approvals } }, lines)
  }
}

type Asked = { readonly message: string | []; readonly body?: { readonly approvals: ApprovalAnswer[] } }

/** Shows an answer, and gives the calls that wait. A failure is printed, and the chat goes on without that turn. */
async function answer(client: Client, asked: Asked, lines: Interface): Promise<readonly WaitingCall[]> {
  const run = client.stream({ ...asked, chat: 'terminal' })
  // A run that cannot be stopped says itself why.
  const stop = (): void => void run.cancel().catch(() => {})
  lines.once('SIGINT', stop)
  try {
    for await (const event of run) show(event)
    process.stdout.write('\n')
    const { status, frame } = await run.result
    if (status === 'cancelled') console.error(styleText('dim', '[stopped]'))
    return (frame['approvals'] ?? []) as readonly WaitingCall[]
  } catch (error) {
    console.error(styleText('red', error instanceof Error ? error.message : String(error)))
    return []
  } finally {
    lines.off('SIGINT', stop)
  }
}

function show(event: StreamEvent): void {
  if (event.type === 'raw_response_event') {
    const { type, delta = '' } = event.data
    if (type === 'response.output_text.delta' && event.callerAgent === null) process.stdout.write(delta)
  } else if (event.type === 'run_item_stream_event' && event.name === 'tool_called') {
    console.error(styleText('dim', `[${event.agent} uses ${event.item.raw_item.name ?? 'a tool'}]`))
  }
}
