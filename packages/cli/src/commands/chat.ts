import { createInterface, type Interface } from 'node:readline'
import { styleText } from 'node:util'
import { Command } from 'commander'
import { ConfigError, type Message } from '@bureau/protocol'
import { askAgency, cancelRun, type ChatTarget, listAgencies } from '../chat/agency-client.ts'

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
    await chat({ url, token, agency })
  })

async function chat(target: ChatTarget): Promise<void> {
  const lines = createInterface({ input: process.stdin, output: process.stderr, prompt: styleText('cyan', 'you> ') })
  console.error(`Talking to ${target.agency}.`)
  const history: Message[] = []
  let open = true // Input that comes from a file is at its end before the answers are.
  lines.once('close', () => (open = false))
  lines.prompt()
  for await (const line of lines) {
    if (line.trim() !== '') history.push(...(await turn(target, line, { history, lines })))
    if (open) lines.prompt()
  }
}

/** One message and its answer. A failure is printed, and the chat goes on without that turn. */
async function turn(
  target: ChatTarget,
  message: string,
  { history, lines }: { history: readonly Message[]; lines: Interface },
): Promise<readonly Message[]> {
  let runId: string | undefined
  const stop = (): void => void (runId && cancelRun(target, runId))
  lines.once('SIGINT', stop)
  try {
    const answer = await askAgency(
      target,
      { message, chat_history: history },
      {
        onText: (text) => void process.stdout.write(text),
        onNote: (note) => console.error(styleText('dim', `[${note}]`)),
        onRun: (id) => (runId = id),
      },
    )
    process.stdout.write('\n')
    if (answer.cancelled) console.error(styleText('dim', '[stopped]'))
    return answer.newMessages
  } catch (error) {
    console.error(styleText('red', error instanceof Error ? error.message : String(error)))
    return []
  } finally {
    lines.off('SIGINT', stop)
  }
}
