import { type Fields, fieldsOf } from '@bureau/protocol'
import type { ResponsesRequest } from '../agency/model-object.ts'
import { textMembers, withoutNulls } from './members.ts'

/** Arguments of a client library's call, not of the request that it sends. */
const OF_THE_CALL = ['extra_headers', 'extra_query', 'timeout'] as const

/** What a run is made of, and how it is answered: not the caller's to replace. */
const OF_THE_RUN = ['instructions', 'tools', 'model', 'previous_response_id', 'conversation', 'background'] as const

/**
 * Lays `client_config.model_settings_extra_args` over a request.
 *
 * `reasoning_effort` and `reasoning_summary` become the reasoning setting, `include` extends the list, `max_tokens` sets
 * the output limit, `extra_body` is merged into the body (a `reasoning` object inside it too); everything else is passed
 * on as it is. Nulls count as absent.
 */
export function applyExtraArguments(request: ResponsesRequest, extra: Fields): ResponsesRequest {
  if (Object.keys(extra).length === 0) return request
  const { reasoning, include, max_tokens: maxTokens, ...rest } = readArguments(extra)
  const ownReasoning = fieldsOf(request['reasoning'])
  const includes = new Set([...asList(request['include']), ...asList(include)])
  const merged: Record<string, unknown> = {
    ...request,
    ...rest,
    ...(reasoning && { reasoning: { ...ownReasoning, ...reasoning } }),
    ...(includes.size > 0 && { include: [...includes] }),
    ...(maxTokens !== undefined && { max_output_tokens: maxTokens }),
  }
  for (const name of OF_THE_RUN) {
    if (name in request) merged[name] = request[name]
    else delete merged[name]
  }
  return { ...merged, input: request.input }
}

/** Headers among the arguments. */
export function extraHeaders(extra: Fields): Record<string, string> {
  return textMembers(extra['extra_headers'])
}

type ExtraArguments = {
  readonly reasoning?: Fields
  readonly include?: unknown
  readonly max_tokens?: unknown
  readonly [name: string]: unknown
}

/** One flat set of arguments: `extra_body` laid over the rest, and the parts of `reasoning` gathered. */
export function readArguments(extra: Fields): ExtraArguments {
  const { reasoning_effort: effort, reasoning_summary: summary, extra_body: body, ...rest } = withoutNulls(extra)
  const { reasoning: lifted, include, ...bodyRest } = withoutNulls(fieldsOf(body))
  const reasoning = {
    ...fieldsOf(rest['reasoning']),
    ...fieldsOf(lifted),
    ...(effort !== undefined && { effort }),
    ...(summary !== undefined && { summary }),
  }
  const includes = [...asList(rest['include']), ...asList(include)]
  const merged: Record<string, unknown> = { ...rest, ...bodyRest }
  for (const name of ['reasoning', 'include', ...OF_THE_CALL]) delete merged[name]
  return {
    ...merged,
    ...(Object.keys(reasoning).length > 0 && { reasoning }),
    ...(includes.length > 0 && { include: includes }),
  }
}

function asList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}
