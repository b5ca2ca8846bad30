import { expect, test } from 'vitest'
import { isRetryable, RUN_ERRORS } from './run-errors.ts'

test('a retry is worth it after failures that pass by themselves, and after no other', () => {
  const retryable = Object.entries(RUN_ERRORS).flatMap(([code, of]) => (isRetryable(code, of.class) ? [code] : []))

  expect(retryable).toEqual([
    'runner_lost',
    'server_shutdown',
    'internal_error',
    'agency_changed',
    'run_failed',
    'sandbox_unavailable',
    'storage_unavailable',
    'upstream_unavailable',
    'upstream_timeout',
    'upstream_rate_limited',
    'upstream_invalid_response',
    'tool_server_unavailable',
  ])
})
