import type { ModelRequest, ModelSettings } from '#agents-core'
import type { WireItem } from '@bureau/protocol'
import { toWirePart } from '../wire-items.parts.ts'
import { asJson, includesOf, requestTools, snakeCased, toolChoiceOf } from './request-tools.ts'
import type { ResponsesRequest } from './transport.ts'

type Json = Record<string, unknown>

/**
 * A Responses API request body for what the agents SDK asks of a model; `input` is given in wire form.
 *
 * The model of a prompt template counts unless the request says `overridePromptModel`.
 */
export function requestBody(request: ModelRequest, name: string, input: readonly WireItem[]): ResponsesRequest {
  const settings = request.modelSettings
  const { extra, text, reasoning, ...providerData } = splitProviderData(settings)
  const model = request.prompt && !request.overridePromptModel ? undefined : name
  const body: Json = {
    model,
    instructions: request.systemInstructions?.trim() ? request.systemInstructions : undefined,
    input,
    ...toolFields(request, model),
    temperature: settings.temperature,
    top_p: settings.topP,
    truncation: settings.truncation,
    max_output_tokens: settings.maxTokens,
    reasoning: settings.reasoning || reasoning ? { ...settings.reasoning, ...asJson(reasoning) } : undefined,
    text: textOf(request, asJson(text)),
    store: settings.store,
    prompt: request.prompt ? promptOf(request.prompt) : undefined,
    prompt_cache_retention: settings.promptCacheRetention?.replace('in-memory', 'in_memory'),
    prompt_cache_options: settings.promptCacheOptions,
    context_management: settings.contextManagement?.map((entry) => snakeCased(entry)),
    ...providerData,
    ...extra,
  }
  for (const [member, value] of Object.entries(body)) if (value === undefined || value === null) delete body[member]
  return body as ResponsesRequest
}

/** Headers that the agent's model settings add to its requests. */
export function requestHeaders(settings: ModelSettings): Record<string, string> {
  const { extra_headers: snake, extraHeaders: camel } = asJson(settings.providerData)
  return Object.fromEntries(
    Object.entries(asJson(snake ?? camel)).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}

/** Without tools nothing is said about them, unless a prompt template may have some. */
function toolFields(request: ModelRequest, model: string | undefined): Json {
  const { toolChoice, parallelToolCalls } = request.modelSettings
  const tools = requestTools(request, model)
  if (tools.length === 0 && !request.prompt) return {}
  return {
    tools: tools.length > 0 ? tools : undefined,
    tool_choice: toolChoiceOf(toolChoice, model, tools),
    parallel_tool_calls: parallelToolCalls,
    include: includesOf(request.tools),
  }
}

/** What is meant for the body, apart from what is meant for the HTTP request. */
function splitProviderData(settings: ModelSettings): Json & { readonly extra: Json } {
  const { extra_body: snake, extraBody: camel, ...others } = asJson(settings.providerData)
  const { extraHeaders: _h, extra_headers: _hs, extraQuery: _q, extra_query: _qs, ...providerData } = others
  return { ...providerData, extra: asJson(snake ?? camel) }
}

function textOf(request: ModelRequest, providerText: Json): Json | undefined {
  const text = {
    ...request.modelSettings.text,
    ...providerText,
    ...(request.outputType !== 'text' && { format: request.outputType }),
  }
  return Object.keys(text).length > 0 ? text : undefined
}

function promptOf({ promptId, version, variables }: NonNullable<ModelRequest['prompt']>): Json {
  const values = Object.entries(variables ?? {}).map(([name, value]) => [name, toWirePart(value)])
  return { id: promptId, version, variables: Object.fromEntries(values) as Json }
}
