import { styleText } from 'node:util'
import { plain } from './terminal-text.ts'

type LogRecord = Readonly<Record<string, unknown>>

/** Of every line, and of no interest to who looks at a terminal. */
const LEFT_OUT = new Set(['level', 'time', 'pid', 'hostname', 'msg', 'err', 'requestId', 'runId'])

/** What the first screen says already. */
const SAID = /^Server listening at /

const WARN = 40
const ERROR = 50

/** One line of the JSON log as a person reads it, with its end; empty when there is nothing new in it. Colours only on a terminal. */
export function prettyLine(json: string): string {
  const record = recordOf(json)
  if (!record) return json
  const message = typeof record['msg'] === 'string' ? record['msg'] : ''
  if (SAID.test(message)) return ''
  const level = Number(record['level'])
  const time = styleText('dim', new Date(Number(record['time'])).toTimeString().slice(0, 8))
  const mark = level >= ERROR ? styleText('red', 'error  ') : level >= WARN ? styleText('yellow', 'warning  ') : ''
  return `${time}  ${mark}${sentenceOf(message, record)}${failureOf(record, level)}\n`
}

function recordOf(json: string): LogRecord | undefined {
  try {
    return JSON.parse(json) as LogRecord
  } catch {
    return undefined
  }
}

function sentenceOf(message: string, record: LogRecord): string {
  const { method, route, status, durationMs, usage, clientLeft } = record
  const took = durationMs === undefined ? '' : ` in ${durationOf(Number(durationMs))}`
  if (message === 'request') {
    const left = clientLeft === true ? ', the client left' : ''
    return plain(
      `${method as string} ${(route as string | undefined) ?? '(no such route)'} ${status as number}${took}${left}`,
    )
  }
  if (message === 'run ended') {
    const who = record['agency'] ?? record['runId']
    return plain(`${String(who)} ${String(status)}${took}${spentOf(usage)}`)
  }
  const rest = Object.entries(record).filter(([name]) => !LEFT_OUT.has(name))
  const fields = rest.map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  return plain(message) + fields.map((field) => styleText('dim', `  ${plain(field)}`)).join('')
}

/** What a run has spent, as its log line says it. */
function spentOf(usage: unknown): string {
  if (typeof usage !== 'object' || usage === null) return ''
  const { total_tokens: tokens, total_cost: cost } = usage as LogRecord
  const dollars = Number(cost ?? 0)
  return `, ${String(tokens)} tokens${dollars > 0 ? `, $${dollars.toFixed(4)}` : ''}`
}

function failureOf({ err }: LogRecord, level: number): string {
  if (typeof err !== 'object' || err === null) return ''
  const { message, stack } = err as { readonly message?: string; readonly stack?: string }
  // A warning says why; where it happened is for what must not happen.
  if (level < ERROR || stack === undefined) return message === undefined ? '' : `: ${plain(message)}`
  return stack
    .split('\n')
    .map((line) => `\n  ${styleText('dim', plain(line))}`)
    .join('')
}

function durationOf(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`
}
