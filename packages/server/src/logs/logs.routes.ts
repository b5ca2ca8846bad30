import { hash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ServiceError } from '@bureau/protocol'
import type { Logger } from '@bureau/runtime'
import { z } from 'zod'
import { named, rawRoute, type ServerRoute } from '../http/route.ts'
import { userOf } from '../http/users.ts'
import { type ActivityLogs, LOG_ID } from './activity-logs.ts'
import { scrubberOf } from './known-texts.ts'
import { logRecord } from './log-record.ts'
import { recordingLogger } from './recording-logger.ts'

const HEADER = 'x-agency-log-id'
const PATH = '/get_logs'

/** Body of `POST /get_logs`, and query of `GET /get_logs`. */
const LogsRequest = z.object({ log_id: z.string().describe('The x-agency-log-id of earlier requests.') })

/**
 * Whoever sends `x-agency-log-id` with a request finds what was logged while it was served under that id.
 *
 * Must be registered after the hook that authenticates: `isOpen` names the requests that it lets pass unseen.
 */
export function recordActivity(
  app: FastifyInstance,
  logs: ActivityLogs,
  isOpen: (request: FastifyRequest) => boolean,
): void {
  const record = (request: FastifyRequest, reply: FastifyReply): void => {
    const id = request.headers[HEADER]
    if (typeof id !== 'string' || !LOG_ID.test(id) || request.routeOptions.url === PATH) return
    const scrub = scrubberOf(request)
    const log = recordingLogger(request.log as Logger, (call) => {
      const fields = { requestId: request.id, ...call.fields }
      logs.append(ownId(request, id), JSON.stringify(logRecord({ ...call, fields }, new Date(), scrub)))
    })
    request.log = log
    reply.log = log
  }
  app.addHook('onRequest', async (request, reply) => {
    if (!isOpen(request)) record(request, reply)
  })
  // Those that check their callers themselves have done so by now.
  app.addHook('preHandler', async (request, reply) => {
    if (request.routeOptions.config?.authenticatesItself) record(request, reply)
  })
}

/** Ids are chosen by callers: where the server knows its users, each has those of its own, and nobody finds another's log. */
function ownId(request: FastifyRequest, id: string): string {
  const user = userOf(request)
  return user ? hash('sha256', JSON.stringify([user.id, id]), 'base64url') : id
}

const COMMON = {
  url: PATH,
  tag: 'logs',
  success: { 200: z.array(z.looseObject({})).describe('The records; reading deletes them.') },
  errors: ['log_id_required', 'log_not_found'],
} as const

/** Reading a log deletes it. */
export function logsRoutes(logs: ActivityLogs): ServerRoute[] {
  return [
    rawRoute(
      {
        ...COMMON,
        ...named('handler_get_logs_get'),
        method: 'GET',
        query: LogsRequest,
        codes: { log_id: 'log_id_required' },
      },
      async ({ request, query }, reply) => sendLog(reply, await readLog(logs, request, query.log_id)),
    ),
    rawRoute(
      { ...COMMON, ...named('handler_get_logs_post'), method: 'POST', body: LogsRequest },
      async ({ request, body }, reply) => sendLog(reply, await readLog(logs, request, body.log_id)),
    ),
  ]
}

function sendLog(reply: FastifyReply, records: readonly unknown[]): FastifyReply {
  reply.type('application/json; charset=utf-8').header('cache-control', 'no-store')
  return reply.send(JSON.stringify(records, null, 2))
}

/** @throws ServiceError `log_id_required`, `log_not_found`, `internal_error` */
async function readLog(logs: ActivityLogs, request: FastifyRequest, id: string): Promise<readonly unknown[]> {
  if (id === '') throw new ServiceError('log_id_required')
  let records: unknown[] | undefined
  try {
    records = LOG_ID.test(id) ? await logs.take(ownId(request, id)) : undefined
  } catch (error) {
    request.log.error({ err: error }, 'an activity log could not be read')
    throw new ServiceError('internal_error', { message: 'Internal server error', cause: error })
  }
  if (!records) throw new ServiceError('log_not_found')
  return records
}
