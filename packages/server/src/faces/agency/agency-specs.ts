import {
  CancelRequestBody,
  CancelResponse,
  type ErrorCode,
  FileUrlsError,
  RunEventsQuery,
  RunOfRequest,
  RunOfRequestQuery,
  RunRequest,
  RunResponse,
} from '@bureau/protocol'
import type { RouteSpec } from '@bureau/runtime'
import { z } from 'zod'
import { named } from '../../http/route.ts'
import { USER_CHECK } from '../../oauth/run-user.ts'
import type { ServedAgency } from '../face.ts'

type Named = Pick<ServedAgency, 'name' | 'signsIn'>

type Post<Success> = { readonly ownBody: z.ZodType; readonly success: Success; readonly errors: readonly ErrorCode[] }

/** What the routes of `agencyFace` take and answer. */
export function agencySpecs(agency: Named) {
  return {
    getResponse: post(agency, 'get_response', {
      ownBody: RunRequest,
      success: { 200: z.xor([RunResponse, FileUrlsError]) },
      errors: ['run_failed', 'overloaded', ...(agency.signsIn ? NEEDS_STREAMING : OF_REQUEST_IDS)],
    }),
    getResponseStream: streamSpec(agency, {
      route: 'get_response_stream',
      body: RunRequest,
      description: 'Server-sent events: meta, data, messages, end.',
      errors: OF_REQUEST_IDS,
    }),
    cancelResponseStream: post(agency, 'cancel_response_stream', {
      ownBody: CancelRequestBody,
      success: { 200: CancelResponse },
      errors: ['run_not_found'],
    }),
    events: eventsSpec(agency),
    runOfRequest: runOfRequestSpec(agency),
  }
}

const NEEDS_STREAMING = ['oauth_needs_streaming'] as const

/** Refusals of a request that has an id. */
const OF_REQUEST_IDS = ['request_id_reused', 'request_ended', 'stream_unavailable'] as const

function runOfRequestSpec({ name, signsIn }: Named) {
  return {
    ...named(`handler_${name}_runs_get`),
    method: 'GET',
    url: `/${name}/runs`,
    tag: name,
    query: RunOfRequestQuery,
    success: { 200: RunOfRequest },
    errors: ['run_not_found', 'stream_unavailable', ...(signsIn ? USER_CHECK.errors : [])],
    ...(signsIn && { otherResponses: USER_CHECK.otherResponses }),
  } as const satisfies RouteSpec
}

function eventsSpec({ name, signsIn }: Named): RouteSpec<typeof RunEventsQuery> {
  return {
    ...named(`handler_${name}_events_get`),
    method: 'GET',
    url: `/${name}/runs/:run_id/events`,
    tag: name,
    query: RunEventsQuery,
    codes: { starting_after: 'invalid_last_event_id' },
    headers: { 'Last-Event-ID': 'The number of the last event that was received.' },
    success: {
      200: { contentType: 'text/event-stream', description: 'As of get_response_stream, behind that event.' },
      204: null,
    },
    errors: ['invalid_last_event_id', 'run_not_found', 'stream_unavailable', ...(signsIn ? USER_CHECK.errors : [])],
    ...(signsIn && { otherResponses: USER_CHECK.otherResponses }),
  }
}

type StreamRoute = {
  readonly route: string
  readonly body: z.ZodType
  readonly description: string
  readonly errors?: readonly ErrorCode[]
}

/** A route that streams a run in the protocol of a face. */
export function streamSpec(agency: Named, { route, body, description, errors = [] }: StreamRoute): RouteSpec {
  const success = { 200: { contentType: 'text/event-stream', description } }
  return post(agency, route, { ownBody: body, success, errors: ['overloaded', ...errors] })
}

function post<const Success extends RouteSpec['success']>(
  { name, signsIn }: Named,
  route: string,
  { ownBody, success, errors }: Post<Success>,
): Omit<RouteSpec, 'success'> & { readonly success: Success } {
  return {
    ...named(`handler_${name}_${route}_post`),
    ownBody,
    success,
    method: 'POST',
    url: `/${name}/${route}`,
    tag: name,
    errors: signsIn ? [...errors, ...USER_CHECK.errors] : errors,
    ...(signsIn && { otherResponses: USER_CHECK.otherResponses }),
  }
}
