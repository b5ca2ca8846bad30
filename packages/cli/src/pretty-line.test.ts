import { expect, test } from 'vitest'
import { prettyLine } from './pretty-line.ts'

const COMMON = { level: 30, time: new Date(2026, 0, 1, 9, 8, 7).getTime(), pid: 1, hostname: 'h' }

const shown = (record: object): string => prettyLine(`${JSON.stringify({ ...COMMON, ...record })}\n`)

test.each([
  [{ msg: 'stopping', signal: 'SIGTERM' }, '09:08:07  stopping  signal=SIGTERM\n'],
  [
    { msg: 'request', method: 'POST', route: '/a/get_response', status: 200, durationMs: 154, requestId: 'x' },
    '09:08:07  POST /a/get_response 200 in 154 ms\n',
  ],
  [{ msg: 'request', method: 'GET', status: 404, durationMs: 1 }, '09:08:07  GET (no such route) 404 in 1 ms\n'],
  [
    {
      msg: 'run ended',
      agency: 'a',
      status: 'completed',
      durationMs: 2_340,
      usage: { total_tokens: 32, total_cost: 0.0123 },
    },
    '09:08:07  a completed in 2.3 s, 32 tokens, $0.0123\n',
  ],
  [
    { level: 40, msg: 'tool failed', err: { message: 'No.', stack: 'Error: No.\n at x' } },
    '09:08:07  warning  tool failed: No.\n',
  ],
  [
    { level: 50, msg: 'lost', err: { message: 'No.', stack: 'Error: No.\n at x' } },
    '09:08:07  error  lost\n  Error: No.\n   at x\n',
  ],
  [{ msg: 'Server listening at http://127.0.0.1:8000' }, ''],
  [{ msg: 'a\u001b[2Jb\nc', tool: '\u0007x' }, '09:08:07  a [2Jb c  tool= x\n'],
])('%j', (record, line) => {
  expect(shown(record)).toBe(line)
})

test('what is not a record of the log is shown as it is', () => {
  expect(prettyLine('plain\n')).toBe('plain\n')
})
