import {
  AgencyMetadata,
  CancelRequestBody,
  CancelResponse,
  type ErrorCode,
  FileUrlsError,
  RunRequest,
  RunResponse,
} from '@bureau/protocol'
import type { RouteSpec } from '@bureau/runtime'
import { z } from 'zod'
import { named } from '../http/route.ts'
import { USER_CHECK } from '../oauth/run-user.ts'

type AgencyName = {
  readonly name: string
  /** True: requests must come from a user. */
  readonly needsUser: boolean
}

type Post = Pick<RouteSpec, 'ownBody' | 'success'> & { readonly errors: readonly ErrorCode[] }

/** Clients find the agencies by the paths that end in `/get_metadata`. */
function agencySpecs(agency: AgencyName) {
  const needsStreaming = agency.needsUser ? (['oauth_needs_streaming'] as const) : []
  return {
    getResponse: post(agency, 'get_response', {
      ownBody: RunRequest,
      success: { 200: z.xor([RunResponse, FileUrlsError]) },
      errors: ['run_failed', 'overloaded', ...needsStreaming],
    }),
    getResponseStream: streamSpec(agency, RunRequest, 'Server-sent events: meta, data, messages, end.'),
    cancelResponseStream: post(agency, 'cancel_response_stream', {
      ownBody: CancelRequestBody,
      success: { 200: CancelResponse },
      errors: ['run_not_found'],
    }),
    getMetadata: metadataSpec(agency.name),
  }
}

/** `get_response_stream` in one of its protocols. */
function streamSpec(agency: AgencyName, ownBody: z.ZodType, description: string): RouteSpec {
  const success = { 200: { contentType: 'text/event-stream', description } }
  return post(agency, 'get_response_stream', { ownBody, success, errors: ['overloaded'] })
}

type MetadataSpec = Omit<RouteSpec, 'success'> & { readonly success: { readonly 200: typeof AgencyMetadata } }

function metadataSpec(name: string): MetadataSpec {
  return {
    ...named(`handler_${name}_get_metadata_get`),
    method: 'GET',
    url: `/${name}/get_metadata`,
    tag: name,
    success: { 200: AgencyMetadata },
    errors: [],
  }
}

function post({ name, needsUser }: AgencyName, route: string, { errors, ...spec }: Post): RouteSpec {
  return {
    ...named(`handler_${name}_${route}_post`),
    ...spec,
    method: 'POST',
    url: `/${name}/${route}`,
    tag: name,
    errors: needsUser ? [...errors, ...USER_CHECK.errors] : errors,
    ...(needsUser && { otherResponses: USER_CHECK.otherResponses }),
  }
}
