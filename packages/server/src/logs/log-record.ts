/** One record of an activity log, as its readers know it. */
type LogRecord = {
  readonly message: string
  readonly details: {
    /** Local time without a zone, to the millisecond. */
    readonly timestamp: string
    readonly level: string
    readonly location: CodeLocation
    /** Facts of the record: names, counts, durations. */
    readonly fields?: Readonly<Record<string, unknown>>
    readonly exception?: { readonly type: string; readonly message: string; readonly traceback: readonly string[] }
    /** Of errors without an exception. */
    readonly call_stack?: readonly string[]
  }
}

type CodeLocation = { readonly file: string; readonly function: string; readonly line: number }

export type LogCall = {
  readonly level: string
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly error: unknown
  /** The stack at the place that logs, its own frames first. */
  readonly stack: readonly string[]
}

/** What a record may say of a run or request. Everything else stays out: it could be what somebody has said. */
const PUBLIC_FIELDS = new Set([
  'requestId',
  'runId',
  'agency',
  'agent',
  'agents',
  'callerAgent',
  'model',
  'tool',
  'server',
  'status',
  'errorCode',
  'durationMs',
  'method',
  'route',
  'clientLeft',
  'usage',
])

const LEVELS: Readonly<Record<string, string>> = { warn: 'WARNING', fatal: 'CRITICAL' }

/** The record of one call of a logger. `scrub` takes out of a text what must not be written. */
export function logRecord(call: LogCall, now: Date, scrub: (text: string) => string): LogRecord {
  const { level, message, error, stack } = call
  const fields = Object.entries(call.fields).filter(([name, value]) => PUBLIC_FIELDS.has(name) && value !== undefined)
  const isError = level === 'error' || level === 'fatal'
  return {
    message: scrub(message),
    details: {
      timestamp: localTime(now),
      level: LEVELS[level] ?? level.toUpperCase(),
      location: locationOf(stack[0] ?? ''),
      ...(fields.length > 0 && { fields: Object.fromEntries(fields) }),
      ...(error !== undefined && { exception: describe(error, scrub) }),
      ...(isError && error === undefined && { call_stack: stack.map(shortened) }),
    },
  }
}

function describe(error: unknown, scrub: (text: string) => string): LogRecord['details']['exception'] & object {
  if (!(error instanceof Error)) return { type: typeof error, message: '', traceback: [] }
  const code = 'code' in error && typeof error.code === 'string' ? ` (${error.code})` : ''
  return {
    type: error.name,
    message: `${scrub(error.message).slice(0, 1_000)}${code}`,
    traceback: framesOf(error).map(shortened),
  }
}

/** The frames of a stack without the error's message, which may be several lines long, and look like frames. */
export function framesOf({ stack = '', message }: Error): string[] {
  const at = stack.indexOf(message)
  const frames = stack.slice(at < 0 ? 0 : at + message.length)
  return frames.split('\n').flatMap((line) => (/^\s+at /.test(line) ? [line.trim()] : []))
}

function locationOf(frame: string): CodeLocation {
  const found = /^at (?:(?:async )?(\S.*?) \()?(?:file:\/\/)?(.*?):(\d+):\d+\)?$/.exec(frame)
  if (!found) return { file: '', function: '', line: 0 }
  const [, name = '<anonymous>', file = '', line] = found
  return { file: file.slice(file.lastIndexOf('/') + 1), function: name, line: Number(line) }
}

/** Where the program lies on its machine is nobody's business. */
function shortened(frame: string): string {
  return frame
    .replace(`${process.cwd()}/`, '')
    .replace(/(?:file:\/\/)?\/\S*?\/(node_modules|packages|dist|src)\//, '$1/')
}

function localTime(at: Date): string {
  const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000)
  return local.toISOString().slice(0, -1)
}
