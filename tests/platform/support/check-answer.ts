import { type ErrorCode, ERRORS, PlatformError } from '@bureau/protocol'
import { patternOf, type Route, ROUTES } from '@bureau/platform/testing'
import { expect } from 'vitest'
import { z } from 'zod'
import type { Answer } from './test-client.ts'

/** Refusals that every route may answer with. */
const EVERYWHERE: readonly string[] = [
  'invalid_api_key',
  'invalid_consumer_token',
  'origin_not_allowed',
  'insufficient_scope',
  'rate_limited',
  'invalid_json',
  'invalid_content_type',
  'invalid_request',
  'method_not_allowed',
  'route_not_found',
  'body_too_large',
  'body_too_slow',
  'internal_error',
  'overloaded',
  'server_draining',
  'database_unavailable',
  'files_unavailable',
  'idempotency_key_reused',
  'idempotency_in_progress',
]

/** Every answer of every test is what the API description says: status, body, code. */
export function checkAnswer(method: string, path: string, answer: Answer): void {
  const route = ROUTES.find((each) => each.method === method && patternOf(each.url).test(path.split('?')[0]!))
  if (answer.status < 400) return checkSuccess(route, answer)
  if (route?.surface === 'create_chat' || path.startsWith('/create_new_chat')) {
    return expect(answer.body).toEqual({ detail: expect.any(String) })
  }
  checkFailure(route, path, answer)
}

function checkSuccess(route: Route | undefined, { status, body }: Answer): void {
  if (!route) return
  const schema = route.success[status]
  expect(Object.keys(route.success)).toContain(String(status))
  if (schema instanceof z.ZodType) schema.parse(body)
}

function checkFailure(route: Route | undefined, path: string, { status, body, headers }: Answer): void {
  if (route?.method === 'HEAD') return
  const { code } = body as { code: ErrorCode }
  expect(ERRORS[code]).toMatchObject({ status })
  expect([...EVERYWHERE, ...(route?.errors ?? [])]).toContain(code)
  if (path.startsWith('/get_completion_v2')) return
  PlatformError.strict().parse(body)
  expect(body.requestId).toBe(headers.get('x-request-id'))
}
