import type { Logger } from '@bureau/runtime'
import { framesOf, type LogCall } from './log-record.ts'

const LEVELS = new Set(['debug', 'info', 'warn', 'error', 'fatal'])

type Fields = Readonly<Record<string, unknown>>

/** A logger that also records each call from `debug` on, whatever the logger itself leaves out; children do the same. */
export function recordingLogger(log: Logger, record: (call: LogCall) => void, bound: Fields = {}): Logger {
  return new Proxy(log, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function') return value
      const call = value.bind(target) as (...args: unknown[]) => unknown
      if (LEVELS.has(String(property))) {
        return (...args: unknown[]): void => {
          record({ level: String(property), ...readArguments(args, bound), stack: callerFrames() })
          call(...args)
        }
      }
      if (property === 'child') {
        return (fields: Fields, ...rest: unknown[]) =>
          recordingLogger(call(fields, ...rest) as Logger, record, { ...bound, ...fields })
      }
      if (property === 'isLevelEnabled') return (level: string) => LEVELS.has(level) || call(level)
      return call
    },
  })
}

/** `log.info('text')`, `log.info({ … }, 'text')` or `log.error(error, 'text')`. */
function readArguments([first, second]: unknown[], bound: Fields): Pick<LogCall, 'message' | 'fields' | 'error'> {
  if (typeof first === 'string') return { message: first, fields: bound, error: undefined }
  const fields = typeof first === 'object' && first !== null && !(first instanceof Error) ? (first as Fields) : {}
  const error = first instanceof Error ? first : fields['err']
  const message = typeof second === 'string' ? second : error instanceof Error ? error.message : ''
  return { message, fields: { ...bound, ...fields }, error }
}

/** The stack from the caller of the logger on. */
function callerFrames(): string[] {
  const frames = framesOf(new Error('here'))
  return frames.slice(frames.findLastIndex((frame) => frame.includes(import.meta.filename)) + 1)
}
