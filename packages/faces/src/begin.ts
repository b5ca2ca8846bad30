import { ServiceError } from '@bureau/protocol'
import type { FastifyRequest } from 'fastify'
import type { AskedRun, FaceHost, FaceRun } from './face-host.ts'

/** What the clients of a protocol can do about a refusal that a server gives reasons for in terms of its own routes. */
export type Remedies = {
  /** When nobody knows for which consumer they ask. */
  readonly consumer: string
  /** When the conversation's run waits for a person. */
  readonly waiting: (runId: string) => string
}

/** Starts a run, as `FaceHost.begin` does. A refusal says what the clients of the protocol can do, and names no member of others. */
export async function beginRun(
  { host, remedies }: { readonly host: FaceHost; readonly remedies: Remedies },
  request: FastifyRequest,
  asked: AskedRun,
): Promise<FaceRun> {
  try {
    return await host.begin(request, asked)
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const message = messageOf(error, remedies)
    if (message === undefined) throw error
    throw new ServiceError(error.code, { message, headers: error.headers, cause: error })
  }
}

function messageOf({ code, headers }: ServiceError, remedies: Remedies): string | undefined {
  if (code === 'run_waiting') {
    return `The conversation waits for a person. ${remedies.waiting(headers['X-Agent-Active-Run-Id'] ?? '')}`
  }
  if (code === 'allowance_attribution_required') return `Which consumer asks must be known here. ${remedies.consumer}`
  if (code === 'usage_request_id_reused') return 'The Idempotency-Key is already used by another request.'
  return undefined
}

/** Where a request has no place for a consumer. */
export const BY_TOKEN = 'Use a consumer token in place of the API key.'
