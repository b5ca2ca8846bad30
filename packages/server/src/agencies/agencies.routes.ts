import type { FastifyRequest } from 'fastify'
import type { Agency, RunInput } from '@bureau/framework'
import { CancelRequestBody, type RunEnded, ServiceError } from '@bureau/protocol'
import { ok, RunLog, streamResponse } from '@bureau/runtime'
import type { ServerContext } from '../context.ts'
import { abandon, isClientLost, onClientLost } from '../http/client-lost.ts'
import { parseBody } from '../http/invalid-body.ts'
import { jsonRoute, rawRoute, type ServerRoute } from '../http/route.ts'
import { asUser, runUser } from '../oauth/run-user.ts'
import { agencySpecs } from './agency-specs.ts'
import { agencyMetadata } from './agency-metadata.ts'
import { isFileUrlsFailure } from './attachment-failure.ts'
import { checkClientConfig } from './check-client-config.ts'
import { encodeAgencySse } from './encode-agency-sse.ts'
import { withFiles } from './read-files.ts'
import { readRunRequest, toRunInput } from './read-run-request.ts'
import { logSkippedOverrides } from './skipped-overrides.ts'

const CANCEL_TIMEOUT_MS = 60_000

/** `get_response`, `get_response_stream`, `cancel_response_stream` and `get_metadata` of one agency. */
export function agencyRoutes(context: ServerContext, name: string, agency: Agency): ServerRoute[] {
  const specs = agencySpecs({ name, needsUser: context.signIns?.agencies.has(agency) ?? false })
  return [
    rawRoute(specs.getResponse, async ({ request }, reply) => {
      const input = readInput(context, agency, request)
      if ((await runUser(context.signIns, agency, request)) !== null) throw new ServiceError('oauth_needs_streaming')
      const run = await context.startRun(request, { agency, agencyName: name, input, sink: NO_READER })
      onClientLost(reply, () => run.control.cancel('immediate'))
      return answer(await run.ended)
    }),

    rawRoute(specs.getResponseStream, async ({ request }, reply) => {
      const input = readInput(context, agency, request)
      const userId = await runUser(context.signIns, agency, request)
      if (isClientLost(reply)) return abandon(reply)
      const log = new RunLog()
      const run = await context.startRun(request, {
        agency,
        agencyName: name,
        input: asUser(input, userId),
        userId,
        sink: log,
      })
      if (isClientLost(reply)) return abandon(reply, () => run.control.cancel('immediate'))
      return streamResponse(reply, {
        contentType: 'text/event-stream; charset=utf-8',
        chunks: encodeAgencySse(log.read()),
        keepalive: true,
        // Clients cancel and hang up in one go, and the hang-up may arrive first.
        onClientLost: () => context.runs.abandon(run),
      })
    }),

    rawRoute(specs.cancelResponseStream, async ({ request }) => {
      const body = parseBody(CancelRequestBody, request.body)
      return cancelRun(context, name, { ...body, userId: await runUser(context.signIns, agency, request) })
    }),

    jsonRoute(specs.getMetadata, async () => ok(await agencyMetadata(agency, context.metadataOptions))),
  ]
}

/** @throws InvalidBody */
function readInput(context: ServerContext, agency: Agency, request: FastifyRequest): RunInput {
  const body = readRunRequest(agency, request.body)
  const { models } = context.environment
  const log = request.log as ServerContext['log']
  checkClientConfig(body.client_config, { models, vendors: context.callerVendors })
  const input = toRunInput(body)
  logSkippedOverrides(agency, input.clientConfig, { models, log })
  return withFiles(input, body, { ...context.files, log })
}

/** A non-streaming run is followed by nobody: only its end counts. */
const NO_READER = { emit: () => {}, ready: () => undefined }

/** @throws ServiceError `run_failed` with the run's own sentence */
function answer(ended: RunEnded): Record<string, unknown> {
  if (ended.error && isFileUrlsFailure(ended.error)) return { error: ended.error.message }
  if (ended.status !== 'completed') {
    throw new ServiceError('run_failed', { message: ended.error?.message ?? 'The run was cancelled.' })
  }
  return {
    response: ended.output,
    new_messages: ended.new_messages,
    ...(ended.usage && { usage: ended.usage }),
    ...(ended.file_ids_map && { file_ids_map: ended.file_ids_map }),
    ...(ended.chat_name !== undefined && { chat_name: ended.chat_name }),
  }
}

type Cancel = CancelRequestBody & { readonly userId: string | null }

async function cancelRun(context: ServerContext, agency: string, cancel: Cancel): Promise<object> {
  const { run_id: runId, userId } = cancel
  const mode = cancel.cancel_mode ?? 'immediate'
  const outcome = await context.runs.cancel({ runId, agency, userId, mode, timeoutMs: CANCEL_TIMEOUT_MS })
  if (!outcome) {
    throw new ServiceError('run_not_found', { message: `Run '${runId}' not found or already completed` })
  }
  const { ended, soFar = [] } = outcome
  return {
    ok: ended !== null,
    run_id: runId,
    cancelled: ended?.status === 'cancelled',
    cancel_mode: mode,
    new_messages: ended?.new_messages ?? soFar,
    ...(ended?.usage && { usage: ended.usage }),
    timed_out: ended === null,
  }
}
