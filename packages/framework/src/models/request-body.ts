import { fieldsOf, type WireItem } from '@bureau/protocol'
import type { Prompt } from '../agency/agent-options.ts'
import type { HandoffFunction } from '../agency/handoff.ts'
import type { ModelSettings } from '../agency/model-settings.ts'
import type { OutputFormat } from '../agency/output-format.ts'
import type { AgentTool } from '../agency/tool.ts'
import { textMembers, withoutNulls } from './members.ts'
import { includesOf, requestTools, snakeCased, toolChoiceOf } from './request-tools.ts'
import type { ResponsesRequest } from '../agency/model-object.ts'

type Json = Record<string, unknown>

/** What an agent asks of its model in one turn. */
export type TurnRequest = {
  readonly instructions: string | undefined
  readonly prompt: Prompt | undefined
  readonly settings: ModelSettings
  readonly tools: readonly AgentTool[]
  readonly handoffs: readonly HandoffFunction[]
  /** Undefined: text. */
  readonly format: OutputFormat | undefined
}

/**
 * The Responses API request body for a turn.
 *
 * @param name - The model. Undefined: the one of the prompt template.
 */
export function requestBody(turn: TurnRequest, name: string | undefined, input: readonly WireItem[]): ResponsesRequest {
  const { settings, prompt, format } = turn
  const { extra, text, reasoning, ...providerData } = splitProviderData(settings)
  const words = { ...settings.text, ...fieldsOf(text), ...(format && { format }) }
  const body: Json = {
    model: name,
    instructions: turn.instructions?.trim() ? turn.instructions : undefined,
    input,
    ...toolFields(turn),
    temperature: settings.temperature,
    top_p: settings.topP,
    truncation: settings.truncation,
    max_output_tokens: settings.maxTokens,
    reasoning: settings.reasoning || reasoning ? { ...settings.reasoning, ...fieldsOf(reasoning) } : undefined,
    text: Object.keys(words).length > 0 ? words : undefined,
    store: settings.store,
    prompt: prompt && { id: prompt.promptId, version: prompt.version, variables: prompt.variables ?? {} },
    prompt_cache_retention: settings.promptCacheRetention?.replace('in-memory', 'in_memory'),
    prompt_cache_options: settings.promptCacheOptions,
    context_management: settings.contextManagement?.map((entry) => snakeCased(entry)),
    ...providerData,
    ...extra,
  }
  return withoutNulls(body) as ResponsesRequest
}

/** Headers that the agent's model settings add to its requests. */
export function requestHeaders(settings: ModelSettings): Record<string, string> {
  const { extra_headers: snake, extraHeaders: camel } = fieldsOf(settings.providerData)
  return textMembers(snake ?? camel)
}

/** Without tools the request does not mention them, unless a prompt template may have some. */
function toolFields({ settings, tools, handoffs, prompt }: TurnRequest): Json {
  if (tools.length === 0 && handoffs.length === 0 && !prompt) return {}
  const described = requestTools(tools, handoffs)
  return {
    tools: described.length > 0 ? described : undefined,
    tool_choice: toolChoiceOf(settings.toolChoice),
    parallel_tool_calls: settings.parallelToolCalls,
    include: includesOf(tools),
  }
}

/** What is meant for the body, apart from what is meant for the HTTP request. */
function splitProviderData(settings: ModelSettings): Json & { readonly extra: Json } {
  const { extra_body: snake, extraBody: camel, ...others } = fieldsOf(settings.providerData)
  const { extraHeaders: _h, extra_headers: _hs, extraQuery: _q, extra_query: _qs, ...providerData } = others
  return { ...providerData, extra: fieldsOf(snake ?? camel) }
}
