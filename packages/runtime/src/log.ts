import { type Logger as PinoLogger, destination, pino, stdSerializers } from 'pino'

export type Logger = PinoLogger

export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent'

/** Members that may hold a secret, wherever in a log record they stand. */
const SECRET_MEMBERS = new Set([
  'authorization',
  'api_key',
  'apiKey',
  'token',
  'password',
  'cookie',
  'default_headers',
  'thirdparty_keys',
])

const CENSOR = '[redacted]'

/** Deeper members are left out of the record, which ends cycles too. */
const MAX_DEPTH = 8

/** Lines are written together, because one write to a pipe costs more than the work of making ten lines. */
const MAX_DELAY_MS = 100
const MAX_WAITING_BYTES = 65_536

/** When nobody reads the output, what exceeds this is dropped and counted. */
const MAX_UNREAD_BYTES = 16 * 1024 ** 2

/** For so long nothing is written to an output that has failed, such as a file on a full disk. */
const BROKEN_MS = 10_000

/** What takes the lines of a log, each JSON text with its end. */
export type LogDestination = { write(line: string): void }

/** All loggers of the process share it. */
let standardOutput: LogDestination | undefined

/** A timer runs while there is something to write, because pino's own writes ten times a second even where there is nothing. */
function openStandardOutput(): LogDestination {
  let output: ReturnType<typeof destination> | undefined
  let dropped = 0
  let brokenUntil = 0
  const open = (): ReturnType<typeof destination> => {
    const opened = destination({
      sync: false,
      contentMode: 'buffer', // texts would be measured anew with each line
      minLength: MAX_WAITING_BYTES,
      maxWrite: 2 * MAX_WAITING_BYTES,
      maxLength: MAX_UNREAD_BYTES,
    })
    opened.on('drop', () => dropped++)
    opened.on('drain', () => {
      if (dropped === 0) return
      const lines = dropped
      dropped = 0
      createLogger('warn').warn({ lines }, 'lines of the log were dropped, because they could not be written')
    })
    opened.on('error', ({ message }: Error) => {
      if (output !== opened) return
      output = undefined
      brokenUntil = performance.now() + BROKEN_MS
      opened.destroy() // when the process exits, it would try to write the rest until it can
      process.emitWarning(`The log cannot be written: ${message}`)
    })
    return opened
  }
  let flushing: NodeJS.Timeout | undefined
  const flush = (): void => {
    flushing = undefined
    output?.flush()
  }
  return {
    write: (line) => {
      if (!output && performance.now() < brokenUntil) return void dropped++
      output ??= open()
      output.write(Buffer.from(line) as unknown as string) // its types know only the other mode
      flushing ??= setTimeout(flush, MAX_DELAY_MS).unref()
    },
  }
}

/**
 * JSON logs with secrets cut out, by default on standard output, where a line is written within 100 ms, and when the
 * process exits.
 */
export function createLogger(level: LogLevel, to?: LogDestination): Logger {
  return pino(
    {
      level,
      // The members of child loggers are seen only by `redact`, those of records by the formatter too.
      redact: { paths: [...SECRET_MEMBERS], censor: CENSOR },
      formatters: { log: (record) => withoutSecrets(record, MAX_DEPTH) },
      serializers: { err: (error: Error) => withoutSecrets(stdSerializers.err(error), MAX_DEPTH) },
    },
    to ? harmless(to) : (standardOutput ??= openStandardOutput()),
  )
}

/** A line that cannot be written ends neither the run nor the request that it is about. */
function harmless(to: LogDestination): LogDestination {
  return {
    write: (line) => {
      try {
        to.write(line)
      } catch (error) {
        process.emitWarning(`A line of the log could not be written: ${String(error)}`)
      }
    },
  }
}

/** The same value when it holds no secret, and otherwise a copy without them. Errors are left to their serializer. */
function withoutSecrets<Value>(value: Value, depth: number): Value {
  if (typeof value !== 'object' || value === null || value instanceof Error) return value
  let copy: object | undefined
  for (const [name, member] of Object.entries(value)) {
    const shown = SECRET_MEMBERS.has(name) ? CENSOR : depth === 0 ? undefined : withoutSecrets(member, depth - 1)
    if (shown === member) continue
    copy ??= Array.isArray(value) ? [...value] : { ...value }
    Object.assign(copy, { [name]: shown })
  }
  // A copy has the members of the original.
  return (copy ?? value) as Value
}
