import { Command, InvalidArgumentError } from 'commander'
import { type Client, createClient, type Result, type Run } from '@bureau/client'
import { ConfigError } from '@bureau/protocol'
import { AnswerView } from '../chat/answer-view.ts'
import { decideCalls, isJsonObject } from '../chat/decide-calls.ts'
import { listAgencies } from '../chat/list-agencies.ts'
import { TypedLines } from '../chat/typed-lines.ts'
import { CommandError } from '../command-error.ts'
import { readListenOptions } from '../listen-options.ts'
import { serverAddress } from '../server-address.ts'
import { coloured, plain } from '../terminal-text.ts'

type ChatFlags = {
  readonly url?: string
  readonly agency?: string
  readonly agent?: string
  readonly context?: Readonly<Record<string, unknown>>
  readonly token?: string
}

/** `bureau chat`: talk to an agency in the terminal. Ctrl-C stops an answer; Ctrl-D ends the chat. */
export const chatCommand = new Command('chat')
  .description('Talk to an agency. Ctrl-C stops an answer, Ctrl-D ends the chat.')
  .option('--url <address>', 'where the server is (default: this machine, at PORT, else 8000)', serverAddress)
  .option('--agency <name>', 'the agency to talk to (default: the first one)')
  .option('--agent <name>', 'the agent to begin with (default: the entry point)')
  .option('--context <json>', 'the user_context of each message, which tools can read', contextObject)
  .option('--token <token>', 'the server token (default: the first in APP_TOKEN)')
  .addHelpText(
    'after',
    '\nA line that ends with a backslash goes on in the next one.\n\nExample:\n  $ bureau chat --agency support --context \'{"customer":"ada"}\'',
  )
  .action(async (flags: ChatFlags) => {
    const url = flags.url ?? `http://127.0.0.1:${readListenOptions({}, process.env).port}`
    const token = flags.token ?? /\S+/.exec(process.env['APP_TOKEN'] ?? '')?.[0]
    const agency = await chooseAgency(flags.agency, url, token)
    console.error(`Talking to ${agency}.`)
    process.stdout.once('error', () => process.exit()) // Answers that nobody sees need not be asked for.
    await chat(createClient({ url: `${url}/${agency}`, token }), flags)
  })

function contextObject(text: string): Readonly<Record<string, unknown>> {
  if (isJsonObject(text)) return JSON.parse(text) as Readonly<Record<string, unknown>>
  throw new InvalidArgumentError('Must be a JSON object, such as {"customer":"ada"}.')
}

/** @throws CommandError the server cannot be reached, refuses, or does not serve that agency. */
async function chooseAgency(named: string | undefined, url: string, token: string | undefined): Promise<string> {
  const served = await listAgencies(url, token)
  const agency = named ?? served[0]
  if (agency === undefined) throw new ConfigError(`${url} serves no agency.`)
  if (served.includes(agency)) return agency
  throw new CommandError(`${url} serves no agency "${agency}". Agencies: ${served.join(', ') || 'none'}.`)
}

async function chat(client: Client, { agent, context }: ChatFlags): Promise<void> {
  const terminal: Terminal = { lines: new TypedLines(process.env['TERM']), view: new AnswerView(), agent, context }
  const next = (): Promise<string | undefined> => terminal.lines.read(coloured('cyan', 'you> '))
  for (let line = await next(); line !== undefined; line = await next()) {
    const message = await wholeMessage(line, terminal)
    if (message.trim() !== '' && !(await turn(client, message, terminal))) return
  }
}

/** A line that ends with a backslash goes on in the next one. */
async function wholeMessage(first: string, { lines }: Terminal): Promise<string> {
  let message = first
  while (message.endsWith('\\') && lines.isPerson) {
    message = `${message.slice(0, -1)}\n${(await lines.read(coloured('cyan', '...> '))) ?? ''}`
  }
  return message
}

type Terminal = {
  readonly lines: TypedLines
  readonly view: AnswerView
  /** Who is asked next: who has answered last, so that a handoff lasts; undefined: the entry point. */
  agent: string | undefined
  readonly context: Readonly<Record<string, unknown>> | undefined
}

/** One message and its answer, with whatever the user has to decide in between. False when the input ends before that is decided. */
async function turn(client: Client, message: string, terminal: Terminal): Promise<boolean> {
  const { lines, view, agent, context } = terminal
  let run = client.stream({ message, chat: 'terminal', agent, context })
  try {
    for (;;) {
      const result = await answer(run, terminal)
      if (result.status === 'completed') terminal.agent = result.messages.at(-1)?.agent ?? undefined
      if (result.status !== 'waiting') return true
      const next = await decideCalls(run, result.approvals, lines)
      if (!next) {
        const tools = result.approvals.map(({ tool }) => plain(tool)).join(', ')
        console.error(`Not decided, so not carried out: ${tools}. The line after a message decides: y or n.`)
        process.exitCode = 1
        return false
      }
      run = next
    }
  } catch (error) {
    // The chat goes on without this turn. A person has seen it; a program looks at the exit code.
    view.fail(error)
    if (!lines.isPerson) process.exitCode = 1
    return true
  }
}

/** Shows an answer until it ends or waits. */
async function answer(run: Run, { lines, view }: Terminal): Promise<Result> {
  // A run that cannot be stopped says itself why.
  const stop = (): void => void run.cancel().catch(() => {})
  return lines.stoppable(stop, async () => {
    for await (const event of run) view.show(event)
    const result = await run.result
    view.end(result)
    return result
  })
}
