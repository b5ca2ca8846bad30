import { styleText } from 'node:util'
import { ConfigError, StartError } from '@bureau/protocol'

/** What one check found. `fault`: a server would not start, or its runs would fail; `note`: good to know. */
export type Finding = {
  readonly subject: string
  readonly state: 'ok' | 'note' | 'fault'
  /** What was found; for a fault, what to do. One line, or one for each problem. */
  readonly text: string
}

const MARKS = {
  ok: styleText('green', 'ok   '),
  note: styleText('yellow', 'note '),
  fault: styleText('red', 'FAULT'),
} as const

export function describeFinding({ subject, state, text }: Finding): string {
  const lines = text.trimEnd().split('\n')
  return lines
    .map((line, index) => (index === 0 ? `${MARKS[state]}  ${subject.padEnd(12)}${line}` : `${' '.repeat(19)}${line}`))
    .join('\n')
}

/** Runs a check whose errors are findings too. */
export async function checked(subject: string, check: () => Promise<Finding | string>): Promise<Finding> {
  try {
    const found = await check()
    return typeof found === 'string' ? { subject, state: 'ok', text: found } : found
  } catch (error) {
    return { subject, state: 'fault', text: reasonOf(error) }
  }
}

/** The message, with that of the innermost cause, where libraries say what really happened: our own messages say it already. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof ConfigError || error instanceof StartError) return error.message
  const inner = error instanceof AggregateError ? error.errors[0] : error.cause
  const reason = inner instanceof Error ? reasonOf(inner) : ''
  return [error.message, reason].filter((text) => text !== '').join(' ')
}
