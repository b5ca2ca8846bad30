import { type Fields, fieldsOf } from '@bureau/protocol'
import type {
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  LanguageModelV4ProviderTool,
  LanguageModelV4ToolChoice,
} from '@ai-sdk/provider'
import { withoutNulls } from '../members.ts'
import { ModelError } from '../model-error.ts'
import type { ResponsesRequest } from '../../agency/model-object.ts'
import { type LanguageModel, vendorOfModel } from '../../agency/language-model.ts'
import type { Metadata } from './provider-data.ts'
import { readProviderTool } from '../../agency/provider-tools.ts'

type Tool = LanguageModelV4FunctionTool | LanguageModelV4ProviderTool
type CallOptions = Omit<LanguageModelV4CallOptions, 'prompt' | 'abortSignal' | 'headers'>

/** Settings that every model of the AI SDK takes, by their names on the wire. */
export const COMMON_SETTINGS: Readonly<Record<string, keyof CallOptions>> = {
  temperature: 'temperature',
  top_p: 'topP',
  top_k: 'topK',
  max_output_tokens: 'maxOutputTokens',
  frequency_penalty: 'frequencyPenalty',
  presence_penalty: 'presencePenalty',
  seed: 'seed',
  stop: 'stopSequences',
}

/**
 * What a Responses request asks for besides its conversation.
 *
 * Tools that only the default vendor can run are left out. `providerOptions` of the request are options of the vendor.
 *
 * @throws ModelError `upstream_invalid_request` when `tool_choice` demands a tool that was left out.
 */
export function toCallOptions(request: ResponsesRequest, model: LanguageModel): CallOptions {
  const { effort } = fieldsOf(request['reasoning'])
  const responseFormat = toResponseFormat(fieldsOf(fieldsOf(request['text'])['format']))
  const options = vendorOptions(request, vendorOfModel(model))
  return {
    ...commonSettings(request),
    ...(typeof effort === 'string' && { reasoning: effort as NonNullable<CallOptions['reasoning']> }),
    ...(responseFormat && { responseFormat }),
    ...toToolOptions(request),
    ...(options && { providerOptions: options }),
  }
}

/** An agent's settings may have them in the spelling of the AI SDK too. */
function commonSettings(request: ResponsesRequest): CallOptions {
  const settings: Record<string, unknown> = {}
  for (const [wire, name] of Object.entries(COMMON_SETTINGS)) {
    const value = request[wire] ?? request[name]
    if (value !== undefined && value !== null) settings[name] = name === 'stopSequences' ? [value].flat() : value
  }
  return settings
}

function toResponseFormat({ type, name, schema, description }: Fields): CallOptions['responseFormat'] {
  if (type === 'json_object') return { type: 'json' }
  if (type !== 'json_schema') return undefined
  return {
    type: 'json',
    ...(typeof name === 'string' && { name }),
    ...(typeof description === 'string' && { description }),
    schema: fieldsOf(schema),
  }
}

function toToolOptions(request: ResponsesRequest): Pick<CallOptions, 'tools' | 'toolChoice'> {
  const known = (request.tools ?? []).flatMap(toTool)
  const { mode, named, allowed } = readToolChoice(request['tool_choice'])
  const tools = allowed ? known.filter(({ name }) => allowed.has(name)) : known
  if (named !== undefined && !tools.some(({ name }) => name === named)) {
    throw new ModelError('upstream_invalid_request', {
      detail: `tool_choice demands ${JSON.stringify(request['tool_choice'])}, which this model cannot run`,
    })
  }
  if (tools.length === 0) return {}
  if (named !== undefined) return { tools, toolChoice: { type: 'tool', toolName: named } }
  return mode ? { tools, toolChoice: { type: mode } } : { tools }
}

function toTool(tool: Fields): Tool[] {
  const { type, name, description, parameters, strict } = tool
  const ofProvider = readProviderTool(tool)
  if (ofProvider) return [ofProvider]
  if (type !== 'function' || typeof name !== 'string') return []
  return [
    {
      type,
      name,
      ...(typeof description === 'string' && { description }),
      inputSchema: parameters ? fieldsOf(parameters) : { type: 'object', properties: {} },
      ...(typeof strict === 'boolean' && { strict }),
    },
  ]
}

type Mode = Exclude<LanguageModelV4ToolChoice['type'], 'tool'>
type ToolChoice = { readonly mode?: Mode; readonly named?: string; readonly allowed?: ReadonlySet<unknown> }

function readToolChoice(choice: unknown): ToolChoice {
  if (isMode(choice)) return { mode: choice }
  const { type, name, mode, tools } = fieldsOf(choice)
  if (type === 'allowed_tools' && Array.isArray(tools)) {
    return { ...(isMode(mode) && { mode }), allowed: new Set(tools.map((tool) => fieldsOf(tool)['name'])) }
  }
  const named = type === 'function' ? name : type
  return typeof named === 'string' ? { named } : {}
}

function isMode(value: unknown): value is Mode {
  return value === 'auto' || value === 'required' || value === 'none'
}

/** What the Responses API has a member for and vendors an option of their own. */
function vendorOptions(request: ResponsesRequest, vendor: string): Metadata | undefined {
  const own = withoutNulls(toVendorOptions(request, vendor)) as Metadata[string]
  const given = fieldsOf(request['providerOptions']) as Metadata
  if (Object.keys(own).length === 0) return Object.keys(given).length === 0 ? undefined : given
  const name = vendor === 'azure' ? 'openai' : vendor
  return { ...given, [name]: { ...own, ...given[name] } }
}

function toVendorOptions(request: ResponsesRequest, vendor: string): Fields {
  const parallel = request['parallel_tool_calls']
  switch (vendor) {
    case 'anthropic':
      return parallel === false ? { disableParallelToolUse: true } : {}
    case 'mistral':
    case 'groq':
      return { parallelToolCalls: parallel }
    case 'xai':
      return { parallel_function_calling: parallel }
    case 'openrouter':
    case 'openai_compatible':
      return { parallel_tool_calls: parallel }
    case 'azure':
    case 'openai':
      return {
        parallelToolCalls: parallel,
        store: request['store'],
        textVerbosity: fieldsOf(request['text'])['verbosity'],
        reasoningSummary: fieldsOf(request['reasoning'])['summary'],
      }
    default:
      return {}
  }
}
