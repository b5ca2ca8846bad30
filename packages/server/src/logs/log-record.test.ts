import { pino } from 'pino'
import { expect, test } from 'vitest'
import { logRecord, type LogCall } from './log-record.ts'
import { recordingLogger } from './recording-logger.ts'

/** What is recorded of what a logger is told. */
function recordsOf(use: (log: ReturnType<typeof recordingLogger>) => void): ReturnType<typeof logRecord>[] {
  const calls: LogCall[] = []
  use(recordingLogger(pino({ level: 'silent' }), (call) => calls.push(call)))
  return calls.map((call) =>
    logRecord(call, new Date(2026, 0, 2, 3, 4, 5, 6), (text) => text.replace('hunter2', '***')),
  )
}

test('an error without an exception says how the program came to it', () => {
  const [error, warning] = recordsOf((log) => {
    log.error('it is broken')
    log.warn('it is odd')
  })

  expect(error!.details.level).toBe('ERROR')
  expect(error!.details.call_stack![0]).toContain('log-record.test.ts')
  expect(error!.details).not.toHaveProperty('exception')
  expect(warning!.details.level).toBe('WARNING')
  expect(warning!.details).not.toHaveProperty('call_stack')
})

test('a message that looks like frames is none of them, however long it is', () => {
  const message = `no such file\n    at the vault with hunter2\n    at ${'/'.repeat(300_000)}`

  const [record] = recordsOf((log) => log.error({ err: new Error(message) }, 'failed'))

  const { traceback } = record!.details.exception!
  expect(traceback[0]).toContain('log-record.test.ts')
  expect(JSON.stringify(record)).not.toContain('hunter2')
})

test('an exception comes with its type, its message and its frames, without secrets and without this machine', () => {
  const [record] = recordsOf((log) => log.error({ err: new TypeError('password hunter2 is wrong') }, 'failed'))

  expect(record).toMatchObject({
    message: 'failed',
    details: {
      timestamp: '2026-01-02T03:04:05.006',
      location: { file: 'log-record.test.ts', function: expect.any(String), line: expect.any(Number) },
      exception: { type: 'TypeError', message: 'password *** is wrong' },
    },
  })
  expect(record!.details.exception!.traceback.join('\n')).toContain('log-record.test.ts')
  expect(JSON.stringify(record)).not.toContain(process.cwd())
  expect(record!.details).not.toHaveProperty('call_stack')
})

type Log = ReturnType<typeof recordingLogger>

test.each([
  ['an error alone', (log: Log) => log.error(new Error('alone'))],
  ['something thrown that is no error', (log: Log) => log.error({ err: 'text' }, 'x')],
  ['an error without a stack', (log: Log) => log.error(withoutStack(), 'x')],
  ['fields that nobody may see', (log: Log) => log.info({ password: 'unseen', input: 'unseen' }, 'x')],
])('%s is recorded, whatever it is', (_, use) => {
  const [record] = recordsOf(use)

  expect(record!.message).toEqual(expect.any(String))
  expect(JSON.stringify(record)).not.toContain('unseen')
})

function withoutStack(): Error {
  const error = new Error('no stack')
  delete error.stack
  return error
}
