import type { AgentInputItem, ModelRequest } from '#agents-core'

type Fields = Readonly<Record<string, unknown>>

/**
 * A request as an AI SDK model takes it.
 *
 * A conversation may hold what other models have left in it. The adapter throws on items that it does not know and
 * would pass on members that are meant for others, so only what every provider understands is kept, and from reasoning
 * only the model's own. Tools that only the default vendor can run are left out.
 *
 * @param modelId - The adapter's own name of the model, as it stands in the items that the model has made.
 */
export function toThirdPartyRequest(request: ModelRequest, modelId: string): ModelRequest {
  const { input, modelSettings, tools } = request
  const { extraHeaders, ...providerData } = asFields(modelSettings.providerData)
  const effort = modelSettings.reasoning?.effort
  return {
    ...request,
    input: typeof input === 'string' ? input : input.flatMap((item) => toKnownItem(item, modelId)),
    tools: tools.filter((tool) => tool.type === 'function' || isAdapterTool(tool)),
    modelSettings: {
      ...modelSettings,
      providerData: {
        ...(effort && { reasoning: effort }),
        ...(extraHeaders !== undefined && { headers: extraHeaders }),
        ...providerData,
      },
    },
  }
}

function isAdapterTool(tool: ModelRequest['tools'][number]): boolean {
  return tool.type === 'hosted_tool' && asFields(tool.providerData)['aiSdkProviderTool'] !== undefined
}

function toKnownItem(item: AgentInputItem, modelId: string): AgentInputItem[] {
  const own = asFields(item.providerData)['model'] === modelId
  switch (item.type) {
    case undefined:
    case 'message':
      return toMessage(item, own)
    case 'function_call':
    case 'function_call_result':
      return [own ? item : without(item, 'providerData')]
    case 'reasoning':
      return own && item.content.length > 0 ? [item] : []
    case 'unknown':
      return toMessage(asFields(item.providerData), false)
    default:
      return []
  }
}

/** Rebuilt from its text and attachments; what the SDK keeps unread (`unknown`) may still be a message. */
function toMessage(message: Fields, own: boolean): AgentInputItem[] {
  const { role, content, providerData } = message
  const parts = typeof content === 'string' ? [{ type: 'input_text', text: content }] : asList(content)
  const kept = own ? { providerData } : {}
  if (role === 'user') return [{ role, content: parts.flatMap(toUserPart), ...kept } as AgentInputItem]
  const text = parts.map((part) => textOf(part['text'] ?? part['refusal'])).join('')
  if (role === 'system' || role === 'developer') return [{ role: 'system', content: text }]
  if (role !== 'assistant' || text === '') return []
  return [{ role, status: 'completed', content: [{ type: 'output_text', text }], ...kept } as AgentInputItem]
}

function toUserPart(part: Fields): Fields[] {
  switch (part['type']) {
    case 'input_text':
      return [without(part, 'providerData')]
    case 'input_image':
      return typeof part['image'] === 'string' ? [without(part, 'providerData')] : [note('An image')]
    case 'input_file':
      return isReadable(part['file']) ? [without(part, 'providerData')] : [note(`The file ${nameOf(part)}`)]
    default:
      return []
  }
}

/** Content, or an address; ids of the default vendor's file service mean nothing elsewhere. */
function isReadable(file: unknown): boolean {
  return typeof file === 'string' || typeof asFields(file)['url'] === 'string'
}

function nameOf({ filename }: Fields): string {
  return textOf(filename)
}

function note(what: string): Fields {
  return { type: 'input_text', text: `[${what} is not shown: this model cannot open stored files.]` }
}

function without<Item extends object>(item: Item, member: string): Item {
  const { [member]: _member, ...rest } = item as Record<string, unknown>
  return rest as Item
}

function asFields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {}
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function asList(value: unknown): Fields[] {
  return Array.isArray(value) ? value.map(asFields) : []
}
