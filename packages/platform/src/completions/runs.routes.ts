import {
  CancelRunRequest,
  CancelRunResponse,
  PlatformRun,
  RunEventsQuery,
  RunListQuery,
  RunQuery,
  RunTextQuery,
  ServiceError,
} from '@bureau/protocol'
import { type Answered, hasEverything, ok, param, readResumePoint } from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
import type { z } from 'zod'
import { reachOf, requireScope } from '../caller.ts'
import { getChat } from '../chats/manage-chats.ts'
import { readOffset } from './encode-text.ts'
import { followed, sendEvents, sendText } from './stream-run.ts'
import { EXAMPLES } from '../docs/examples.ts'
import { eventsUrlOf } from '../http/addresses.ts'
import { listRoute } from '../http/pages.ts'
import { present } from '../http/present.ts'
import { type Call, jsonRoute, rawRoute, type Route } from '../http/route.ts'
import { cancelRun } from '../runs/cancel-run.ts'
import { findRunStream } from '../runs/follow-run.ts'
import { getRun, listRuns } from '../run-records/read-runs.ts'

export const runRoutes: readonly Route[] = [
  listRoute(
    {
      url: '/v1/runs',
      id: 'listRuns',
      tag: 'Runs',
      summary: 'List runs, newest first',
      scope: 'runs',
      query: RunListQuery,
      item: PlatformRun,
    },
    async ({ platform, caller }, { apiIntegrationId: integrationId, ...asked }) => {
      requireScope(caller, 'runs', integrationId)
      return platform.store.db.run(listRuns, { ...asked, ...present({ integrationId }), ...reachOf(caller) })
    },
  ),
  jsonRoute(
    {
      method: 'GET',
      url: '/v1/runs/:runId',
      id: 'getRun',
      consumer: 'chat',
      tag: 'Runs',
      summary: 'Get a run, with what it produced if asked for',
      scope: 'runs',
      query: RunQuery,
      examples: { response: EXAMPLES.run },
      success: { 200: PlatformRun },
      errors: ['run_not_found'],
    },
    async (call) => ok(await read(call, call.query.include === 'output')),
  ),
  jsonRoute(
    {
      method: 'POST',
      url: '/v1/runs/:runId/cancel',
      id: 'cancelRun',
      consumer: 'chat',
      tag: 'Runs',
      summary: 'Cancel exactly this run',
      description: 'Safe to repeat. A run that has ended stays as it is; `after_turn` can be sharpened to `immediate`.',
      scope: 'runs',
      body: CancelRunRequest,
      bodyOptional: true,
      examples: { request: { cancel_mode: 'after_turn', waitMs: 5_000 }, response: EXAMPLES.cancelled },
      success: { 200: CancelRunResponse, 202: CancelRunResponse },
      errors: ['run_not_found'],
    },
    cancel,
  ),
  rawRoute(
    {
      method: 'GET',
      url: '/v1/runs/:runId/events',
      id: 'followRun',
      consumer: 'chat',
      tag: 'Runs',
      summary: 'Follow a run from a position on',
      scope: 'runs',
      query: RunEventsQuery,
      headers: { 'Last-Event-ID': 'The number of the last event that was received.' },
      success: { 200: { contentType: 'text/event-stream', description: 'As of the completion.' }, 204: null },
      errors: ['invalid_last_event_id', 'run_not_found', 'stream_unavailable'],
    },
    follow,
  ),
  rawRoute(
    {
      method: 'GET',
      url: '/v1/runs/:runId/text',
      id: 'followRunText',
      consumer: 'chat',
      tag: 'Runs',
      summary: 'Follow the text of a run from a byte on',
      scope: 'runs',
      query: RunTextQuery,
      success: { 200: { contentType: 'text/plain', description: 'What the agents say to the user.' }, 204: null },
      errors: ['invalid_offset', 'run_not_found', 'stream_unavailable'],
    },
    followText,
  ),
]

async function read(call: Call, output: boolean): Promise<PlatformRun> {
  const { platform, caller } = call
  return platform.store.db.run(getRun, { ...reachOf(caller), runId: param(call, 'runId'), output })
}

async function cancel(
  call: Call<unknown, z.output<typeof CancelRunRequest>>,
): Promise<Answered<200 | 202, CancelRunResponse>> {
  const { cancel_mode: mode, waitMs } = call.body
  await read(call, false) // a restricted key sees no other runs
  const { ended } = await cancelRun(call.platform, {
    ownerId: call.caller.ownerId,
    runId: param(call, 'runId'),
    mode,
    waitMs,
  })
  const { newMessages = [], outputText: _, ...run } = await read(call, true)
  const body: CancelRunResponse = {
    ok: ended,
    run_id: run.runId,
    cancelled: run.status === 'cancelled',
    cancel_mode: mode,
    new_messages: ended ? newMessages : [],
    run,
  }
  return { status: ended ? 200 : 202, body }
}

async function follow(call: Call<z.output<typeof RunEventsQuery>>, reply: FastifyReply): Promise<void> {
  const { platform, caller, query, request } = call
  const after = readResumePoint({ header: request.headers['last-event-id'], query: query.starting_after })
  const stream = await findRunStream(platform, { ...reachOf(caller), runId: param(call, 'runId') })
  const { run, reader } = stream
  const resumeFrom = after ?? 0
  if (hasEverything(reader, resumeFrom) && after !== undefined) return void (await reply.code(204).send())
  reply.header('X-Agent-Run-Id', run.runId).header('X-Chat-Id', run.chatId)
  await sendEvents(reply, followed(call, reply, stream), {
    ...run,
    aliasChatId: await aliasOf(call, run.chatId),
    resumeFrom,
    eventsUrl: eventsUrlOf(platform, request, run.runId),
    resumed: true,
    replayed: !(await stream.hasAllAfter(resumeFrom)),
  })
}

/** Null also for a chat that was deleted meanwhile. */
async function aliasOf({ platform, caller }: Call, chatId: string): Promise<string | null> {
  try {
    return (await platform.store.db.run(getChat, { ...reachOf(caller), chatId })).aliasChatId
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'chat_not_found') return null
    throw error
  }
}

async function followText(call: Call<z.output<typeof RunTextQuery>>, reply: FastifyReply): Promise<void> {
  const { platform, caller, query } = call
  const offset = readOffset(query.offset)
  const stream = await findRunStream(platform, { ...reachOf(caller), runId: param(call, 'runId') })
  reply.header('X-Agent-Run-Id', stream.run.runId).header('X-Chat-Id', stream.run.chatId)
  if (!(await sendText(reply, followed(call, reply, stream), offset))) await reply.code(204).send()
}
