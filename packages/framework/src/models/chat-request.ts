import { type Fields, fieldsOf } from '@bureau/protocol'
import { toChatMessages } from './chat-messages.ts'
import { withoutNulls } from './members.ts'
import { ModelError } from './model-error.ts'
import type { ResponsesRequest } from '../agency/model-object.ts'

/** Members of a Responses request that have no counterpart, or that are converted one by one below. */
const NOT_PASSED_ON = new Set([
  'background',
  'context_management',
  'conversation',
  'include',
  'input',
  'instructions',
  'max_output_tokens',
  'max_tool_calls',
  'parallel_tool_calls',
  'previous_response_id',
  'prompt',
  'reasoning',
  'store',
  'stream',
  'stream_options',
  'text',
  'tool_choice',
  'tools',
  'truncation',
])

/**
 * A Responses request as the body of a streamed Chat Completions request.
 *
 * Tools that only the Responses API runs (file and web search, code interpreter, hosted MCP) are left out. Members that
 * are not part of the Responses API are passed on, for options of the server at hand.
 *
 * @throws ModelError `upstream_invalid_request` when `tool_choice` demands a tool that was left out.
 */
export function toChatRequest(request: ResponsesRequest, url: URL): Record<string, unknown> {
  const passedOn = Object.fromEntries(Object.entries(request).filter(([name]) => !NOT_PASSED_ON.has(name)))
  const { verbosity, format } = fieldsOf(request['text'])
  const converted = {
    messages: toChatMessages(request.instructions ?? undefined, request.input),
    stream: true,
    stream_options: { include_usage: true },
    [maxTokensField(url)]: request['max_output_tokens'],
    reasoning_effort: fieldsOf(request['reasoning'])['effort'],
    verbosity,
    response_format: toResponseFormat(fieldsOf(format)),
    ...toToolFields(request),
  }
  return { ...withoutNulls(passedOn), ...withoutNulls(converted) }
}

/** The vendor refuses the old name for reasoning models; other servers mostly know no other. */
function maxTokensField(url: URL): string {
  return /(^|\.)openai(\.azure)?\.com$/.test(url.hostname) ? 'max_completion_tokens' : 'max_tokens'
}

function toResponseFormat(format: Fields): Fields | undefined {
  if (format['type'] === 'json_object') return { type: 'json_object' }
  if (format['type'] !== 'json_schema') return undefined
  const { type, ...schema } = format
  return { type, json_schema: schema }
}

function toToolFields(request: ResponsesRequest): Fields {
  const choice = readToolChoice(request['tool_choice'])
  const functions = (request.tools ?? []).filter((tool) => tool['type'] === 'function')
  const offered = choice.allowed ? functions.filter((tool) => choice.allowed?.has(tool['name'])) : functions
  const named = choice.named
  if (named !== undefined && !offered.some((tool) => tool['name'] === named)) {
    throw new ModelError('upstream_invalid_request', {
      detail: `tool_choice demands ${JSON.stringify(request['tool_choice'])}, which Chat Completions cannot run`,
    })
  }
  if (offered.length === 0) return {}
  return {
    tools: offered.map(toChatTool),
    parallel_tool_calls: request['parallel_tool_calls'],
    tool_choice: named === undefined ? choice.mode : { type: 'function', function: { name: named } },
  }
}

type ToolChoice = { readonly mode?: unknown; readonly named?: unknown; readonly allowed?: ReadonlySet<unknown> }

function readToolChoice(choice: unknown): ToolChoice {
  if (typeof choice !== 'object' || choice === null) return { mode: choice }
  const { type, name, mode, tools } = choice as Fields
  if (type === 'allowed_tools' && Array.isArray(tools)) {
    return { mode, allowed: new Set(tools.map((tool: unknown) => fieldsOf(tool)['name'])) }
  }
  return { named: type === 'function' ? name : type }
}

function toChatTool({ name, description, parameters, strict }: Fields): Fields {
  return {
    type: 'function',
    function: {
      name,
      ...(typeof description === 'string' && { description }),
      parameters: parameters ?? { type: 'object', properties: {} },
      ...(strict === true && { strict }),
    },
  }
}
