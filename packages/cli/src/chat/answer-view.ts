import getTruncatedWidth from 'fast-string-truncated-width'
import type { Result, StreamEvent } from '@bureau/client'
import { isTextDelta, textOf } from '@bureau/protocol'
import { coloured, plain } from '../terminal-text.ts'

const DEFAULT_COLUMNS = 80

/** Shows answers while they come: what the agents say to the user on standard output, everything else on standard error. */
export class AnswerView {
  /** Who has the conversation with the user. */
  #agent = ''
  /** What the line that the cursor is in holds; undefined: nothing. */
  #line: 'answer' | 'reasoning' | undefined
  /** The message that was written last, of an answer that has not ended. */
  #message: string | undefined

  show(event: StreamEvent): void {
    switch (event.type) {
      case 'raw_response_event':
        return this.#showModel(event)
      case 'run_item_stream_event':
        return this.#showItem(event)
      case 'agent_updated_stream_event':
        return event.callerAgent === null ? this.#showAgent(event.new_agent.name) : undefined
      case 'oauth_redirect':
        return this.#note(coloured('bold', `Sign in to ${plain(event.server)}: ${plain(event.auth_url)}`))
      case 'run_resumed':
        return this.#note(dim('Another process goes on; what was not finished is written again.'))
      // Calls that wait are asked about when the run has ended, failures are shown by `fail`, and the rest is for programs.
      case 'approval_requested':
      case 'custom':
      case 'error':
      case 'oauth_status':
      case 'reset':
        return
    }
  }

  /** The last line of an answer. */
  end({ status, usage }: Result): void {
    // In a file it goes on behind what it has waited for, and has a line of its own, be it empty.
    if (isScreen() ? this.#line === 'answer' : status !== 'waiting') process.stdout.write('\n')
    this.#line = undefined
    if (status !== 'waiting') this.#message = undefined
    if (status === 'cancelled') this.#note(dim('Stopped.'))
    if (!usage || status === 'waiting' || !process.stderr.isTTY) return
    const dollars = usage.total_cost ? `, $${usage.total_cost.toFixed(4)}` : ''
    this.#note(dim(`${usage.total_tokens.toLocaleString('en')} tokens${dollars}`))
  }

  fail(error: unknown): void {
    this.#note(coloured('red', plain(error instanceof Error ? error.message : String(error))))
  }

  #showModel({ data, callerAgent }: Extract<StreamEvent, { type: 'raw_response_event' }>): void {
    if (callerAgent !== null || data.delta === undefined) return
    if (isTextDelta(data.type)) this.#say(data.item_id, data.delta)
    else if (data.type === 'response.reasoning_summary_text.delta') {
      this.#line = 'reasoning'
      process.stderr.write(coloured(['dim', 'italic'], shown(data.delta)))
    }
  }

  #showItem(event: Extract<StreamEvent, { type: 'run_item_stream_event' }>): void {
    const indent = event.callerAgent === null ? '' : '  '
    const { id, name, arguments: given, output, content } = event.item.raw_item
    if (event.name === 'tool_called')
      this.#note(dim(fit(`${indent}${event.agent} uses ${name ?? 'a tool'} ${textOrJson(given)}`)))
    else if (event.name === 'tool_output' && process.stderr.isTTY)
      this.#note(dim(fit(`${indent}  ${textOrJson(output)}`)))
    // A message that did not come in pieces.
    else if (event.name === 'message_output_created' && event.callerAgent === null && id !== this.#message)
      this.#say(id, textOf(content))
  }

  #say(message = '', text: string): void {
    if (text === '') return
    if (this.#line === 'reasoning') this.#endLine()
    if (this.#message !== undefined && this.#message !== message) this.#endMessage()
    this.#line = 'answer'
    this.#message = message
    process.stdout.write(process.stdout.isTTY ? shown(text) : text)
  }

  /** A file has no notes between messages, which set them apart on a terminal. */
  #endMessage(): void {
    if (isScreen()) this.#endLine()
    else process.stdout.write('\n\n')
  }

  #showAgent(name: string): void {
    if (this.#agent !== '' && this.#agent !== name) this.#note(coloured('bold', `${plain(name)} has the conversation.`))
    this.#agent = name
  }

  #note(text: string): void {
    this.#endLine()
    console.error(text)
  }

  #endLine(): void {
    if (this.#line !== undefined && process.stderr.isTTY) process.stderr.write('\n')
    this.#line = undefined
  }
}

/** Answers and notes are on the same terminal. */
const isScreen = (): boolean => process.stdout.isTTY && process.stderr.isTTY

const dim = (text: string): string => coloured('dim', text)

const textOrJson = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value)

/** One line of the terminal. Some have 0 columns: they do not know. */
function fit(text: string): string {
  const line = plain(text).trimEnd()
  const limit = (process.stderr.columns || DEFAULT_COLUMNS) - 1
  const { index, ellipsed } = getTruncatedWidth(line, { limit, ellipsis: '…', ellipsisWidth: 1 })
  return ellipsed ? `${line.slice(0, index)}…` : line
}

/** As `plain`, of text that has lines. */
const shown = (text: string): string => text.replaceAll(/(?![\n\t])\p{Cc}/gu, '')
