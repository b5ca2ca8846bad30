import { fieldsOf } from '@bureau/protocol'
import type { FunctionTool } from '../agency/function-tool.ts'
import type { HandoffFunction } from '../agency/handoff.ts'
import type { AgentTool } from '../agency/tool.ts'
import { respelled } from './members.ts'

type Json = Record<string, unknown>

/**
 * The tools and handoffs of a request as the Responses API takes them. Of hosted tools only the members that the API
 * knows are sent, because it refuses others; a tool of a kind that is not known here is sent as it is.
 */
export function requestTools(tools: readonly AgentTool[], handoffs: readonly HandoffFunction[]): Json[] {
  return [...tools.map((tool) => once(tool, wireTool)), ...handoffs.map((handoff) => once(handoff, handoffTool))]
}

const described = new WeakMap<object, Json>()

/** A tool or handoff is described once, however many requests offer it. */
function once<Offered extends object>(offered: Offered, describe: (offered: Offered) => Json): Json {
  const known = described.get(offered)
  if (known) return known
  const made = describe(offered)
  described.set(offered, made)
  return made
}

function wireTool(tool: AgentTool): Json {
  return tool.type === 'function' ? functionTool(tool) : hostedTool(fieldsOf(tool.providerData))
}

function functionTool(tool: FunctionTool): Json {
  const { allowedCallers, outputSchema } = tool as { allowedCallers?: unknown; outputSchema?: unknown }
  return given({
    type: 'function',
    name: tool.name,
    description: tool.description,
    parameters: tool.parameters,
    strict: tool.strict,
    allowed_callers: allowedCallers,
    output_schema: outputSchema,
  })
}

function handoffTool(handoff: HandoffFunction): Json {
  return {
    type: 'function',
    name: handoff.toolName,
    description: handoff.toolDescription,
    parameters: handoff.inputJsonSchema,
    strict: handoff.strictJsonSchema,
  }
}

/** What the answer must carry besides its items, for the options of these tools. */
export function includesOf(tools: readonly AgentTool[]): string[] | undefined {
  const includes = tools.flatMap((tool) => {
    if (tool.type !== 'hosted_tool') return []
    const data = fieldsOf(tool.providerData)
    if (data['type'] === 'file_search' && data['include_search_results']) return ['file_search_call.results']
    if (data['type'] === 'code_interpreter' && data['include_outputs']) return ['code_interpreter_call.outputs']
    const contents = data['search_content_types']
    if (data['type'] !== 'web_search' || !Array.isArray(contents)) return []
    return contents.includes('image') ? ['web_search_call.results'] : []
  })
  return includes.length > 0 ? includes : undefined
}

const OWN_CHOICES = new Set([
  'file_search',
  'web_search',
  'web_search_preview',
  'code_interpreter',
  'image_generation',
  'mcp',
])

/** The tool that the model must or may call. A name that is not one of the API's own tools is a function's. */
export function toolChoiceOf(choice: string | undefined): unknown {
  if (choice === undefined || ['auto', 'required', 'none'].includes(choice)) return choice
  return OWN_CHOICES.has(choice) ? { type: choice } : { type: 'function', name: choice }
}

/** Members of the API's hosted tools, besides their type. */
const HOSTED_MEMBERS: Readonly<Record<string, readonly string[]>> = {
  web_search: [
    'user_location',
    'filters',
    'search_context_size',
    'external_web_access',
    'search_content_types',
    'image_settings',
  ],
  web_search_preview: ['user_location', 'search_context_size', 'search_content_types'],
  file_search: ['vector_store_ids', 'max_num_results', 'ranking_options', 'filters'],
  code_interpreter: ['container', 'allowed_callers'],
  image_generation: [
    'action',
    'background',
    'complexity',
    'frame_count',
    'frame_duration_ms',
    'input_fidelity',
    'input_image_mask',
    'model',
    'moderation',
    'output_compression',
    'output_format',
    'partial_images',
    'quality',
    'size',
    'svg',
  ],
  mcp: [
    'server_label',
    'server_url',
    'connector_id',
    'authorization',
    'allowed_tools',
    'headers',
    'require_approval',
    'allowed_callers',
    'server_description',
    'defer_loading',
    'tunnel_id',
  ],
}

function hostedTool(data: Json): Json {
  const type = String(data['type'])
  const members = Object.hasOwn(HOSTED_MEMBERS, type) ? HOSTED_MEMBERS[type] : undefined
  return given(members ? { type, ...pick({ ...data, ...completed(type, data) }, members) } : data)
}

/** Older names and defaults of hosted tools. */
function completed(type: string, data: Json): Json {
  switch (type) {
    case 'file_search': {
      const { vector_store_ids: ids, vector_store_id: id } = data
      return { vector_store_ids: ids || (typeof id === 'string' ? [id] : id) }
    }
    case 'mcp':
      return {
        require_approval: approvalOf(data['require_approval']),
        defer_loading: data['defer_loading'] || undefined,
      }
    default:
      return {}
  }
}

function approvalOf(policy: unknown): unknown {
  if (typeof policy !== 'object' || policy === null) return policy ?? 'never'
  return given(snakeCased(pick(policy as Json, ['never', 'always'])) as Json)
}

function pick(data: Json, members: readonly string[]): Json {
  return Object.fromEntries(members.map((member) => [member, data[member]]))
}

function given(data: Json): Json {
  return Object.fromEntries(
    Object.entries(data).filter(([, value]) => value !== undefined && typeof value !== 'function'),
  )
}

/** Settings that the SDK spells in camelCase and the provider in snake_case. */
export function snakeCased(value: unknown): unknown {
  return respelled(value, (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`))
}
