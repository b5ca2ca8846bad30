import type { ModelRequest, ModelSettings } from '#agents-core'

type SerializedTool = ModelRequest['tools'][number]
type FunctionTool = Extract<SerializedTool, { type: 'function' }>
type Json = Record<string, unknown>

/**
 * The tools and handoffs of a request as the Responses API takes them. Of hosted tools only the members that the API
 * knows are sent, because it refuses others; a tool of a kind that is not known here is sent as it is.
 *
 * `model` is undefined when a prompt template chooses it.
 */
export function requestTools(request: ModelRequest, model: string | undefined): Json[] {
  const previewsComputer = usesComputerPreview(model, request.modelSettings.toolChoice)
  const tools: Json[] = []
  const namespaces = new Map<string, Json[]>()
  for (const tool of request.tools) {
    const namespace = tool.type === 'function' ? tool.namespace?.trim() : undefined
    const members = namespace ? namespaces.get(namespace) : undefined
    if (members) members.push(toolOf(tool, previewsComputer))
    else if (namespace) {
      const opened = [toolOf(tool, previewsComputer)]
      namespaces.set(namespace, opened)
      const description = (tool as FunctionTool).namespaceDescription?.trim()
      tools.push({ type: 'namespace', name: namespace, description, tools: opened })
    } else tools.push(toolOf(tool, previewsComputer))
  }
  return [...tools, ...request.handoffs.map(handoffTool)]
}

/** What the answer must carry besides its items, for the options of these tools. */
export function includesOf(tools: readonly SerializedTool[]): string[] | undefined {
  const includes = tools.flatMap((tool) => {
    if (tool.type !== 'hosted_tool') return []
    const data = asJson(tool.providerData)
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
  'programmatic_tool_calling',
  'shell',
  'apply_patch',
])
const COMPUTER_TYPES = new Set(['computer', 'computer_use', 'computer_use_preview'])

/** The tool that the model must or may call. A name that is no tool of the API's own is a function's. */
export function toolChoiceOf(
  choice: ModelSettings['toolChoice'],
  model: string | undefined,
  tools: readonly Json[],
): unknown {
  if (choice === undefined || ['auto', 'required', 'none'].includes(choice)) return choice
  if (COMPUTER_TYPES.has(choice) && tools.some(({ type }) => COMPUTER_TYPES.has(String(type)))) {
    return { type: usesComputerPreview(model, choice) ? 'computer_use_preview' : choice.replace('_preview', '') }
  }
  if (OWN_CHOICES.has(choice) || choice === 'computer_use_preview') return { type: choice }
  return { type: 'function', name: choice }
}

/** Models named so know only the preview of the computer tool; all others know only the tool itself. */
function usesComputerPreview(model: string | undefined, choice: ModelSettings['toolChoice']): boolean {
  if (model !== undefined) return model.startsWith('computer-use-preview')
  return choice !== 'computer' && choice !== 'computer_use'
}

function toolOf(tool: SerializedTool, previewsComputer: boolean): Json {
  switch (tool.type) {
    case 'function':
      return functionTool(tool)
    case 'computer': {
      const [display_width, display_height] = tool.dimensions ?? []
      if (!previewsComputer) return { type: 'computer' }
      return given({ type: 'computer_use_preview', environment: tool.environment, display_width, display_height })
    }
    case 'shell':
      return given({
        type: 'shell',
        environment: shellEnvironment(asJson(tool.environment)),
        allowed_callers: tool.allowedCallers,
      })
    case 'apply_patch':
      return given({ type: 'apply_patch', allowed_callers: tool.allowedCallers })
    case 'hosted_tool':
      return hostedTool(asJson(tool.providerData))
  }
}

function functionTool(tool: FunctionTool): Json {
  return given({
    type: 'function',
    name: tool.name,
    description: tool.description,
    parameters: tool.parameters,
    strict: tool.strict,
    allowed_callers: tool.allowedCallers,
    output_schema: tool.outputSchema,
    defer_loading: tool.deferLoading || undefined,
  })
}

function handoffTool(handoff: ModelRequest['handoffs'][number]): Json {
  return {
    type: 'function',
    name: handoff.toolName,
    description: handoff.toolDescription,
    parameters: handoff.inputJsonSchema,
    strict: handoff.strictJsonSchema,
  }
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
  tool_search: ['execution', 'description', 'parameters'],
  programmatic_tool_calling: [],
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
    case 'tool_search':
      return data['execution'] === 'client' ? { ...CLIENT_SEARCH, ...given(data) } : {}
    case 'mcp':
      return {
        require_approval: approvalOf(data['require_approval']),
        defer_loading: data['defer_loading'] || undefined,
      }
    default:
      return {}
  }
}

/** A search that the SDK carries out must say what it takes. */
const CLIENT_SEARCH: Json = {
  description: 'Load tools by namespace or tool name before calling them.',
  parameters: {
    type: 'object',
    properties: { paths: { type: 'array', items: { type: 'string' } } },
    required: ['paths'],
    additionalProperties: false,
  },
}

function approvalOf(policy: unknown): unknown {
  if (typeof policy !== 'object' || policy === null) return policy ?? 'never'
  return given(snakeCased(pick(policy as Json, ['never', 'always'])) as Json)
}

const ENVIRONMENT_MEMBERS: Readonly<Record<string, readonly string[]>> = {
  local: ['type', 'skills'],
  container_auto: ['type', 'file_ids', 'memory_limit', 'network_policy', 'skills'],
  container_reference: ['type', 'container_id'],
}

function shellEnvironment(environment: Json): Json {
  const known = snakeCased({ type: 'local', ...environment }) as Json
  const members = ENVIRONMENT_MEMBERS[String(known['type'])]
  return members ? given(pick(known, members)) : known
}

function pick(data: Json, members: readonly string[]): Json {
  return Object.fromEntries(members.map((member) => [member, data[member]]))
}

function given(data: Json): Json {
  return Object.fromEntries(
    Object.entries(data).filter(([, value]) => value !== undefined && typeof value !== 'function'),
  )
}

export function asJson(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {}
}

/** Settings that the SDK spells in camelCase and the provider in snake_case. */
export function snakeCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeCased)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`),
      snakeCased(member),
    ]),
  )
}
