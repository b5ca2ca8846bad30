import type { Attributes } from '@opentelemetry/api'

/** Names of the OpenTelemetry conventions for generative AI. They still change, so they are written down here. */
export const GEN_AI = {
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  agent: 'gen_ai.agent.name',
  workflow: 'gen_ai.workflow.name',
  requestModel: 'gen_ai.request.model',
  responseModel: 'gen_ai.response.model',
  responseId: 'gen_ai.response.id',
  finishReasons: 'gen_ai.response.finish_reasons',
  firstChunkSeconds: 'gen_ai.response.time_to_first_chunk',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  cachedTokens: 'gen_ai.usage.cache_read.input_tokens',
  cacheWriteTokens: 'gen_ai.usage.cache_creation.input_tokens',
  reasoningTokens: 'gen_ai.usage.reasoning.output_tokens',
  tool: 'gen_ai.tool.name',
  toolType: 'gen_ai.tool.type',
  toolCallId: 'gen_ai.tool.call.id',
  toolArguments: 'gen_ai.tool.call.arguments',
  toolResult: 'gen_ai.tool.call.result',
  instructions: 'gen_ai.system_instructions',
  inputMessages: 'gen_ai.input.messages',
  outputMessages: 'gen_ai.output.messages',
} as const

const MAX_CONTENT_CHARACTERS = 32_768

/** Who serves a model: `thirdparty/anthropic/...` says so; every other name is the default vendor's. */
export function providerOf(model: string): string {
  return /^(?:thirdparty|litellm)\/([^/]+)\//.exec(model)?.[1] ?? 'openai'
}

/** What was said, as one attribute: text as it is, anything else as JSON. Long content is cut. */
export function contentAttribute(name: string, content: unknown): Attributes {
  const text = typeof content === 'string' ? content : (JSON.stringify(content) ?? '')
  return { [name]: text.slice(0, MAX_CONTENT_CHARACTERS) }
}

type Item = Readonly<Record<string, unknown>>
type Part = Readonly<Record<string, unknown>>

/** Text or Responses items as the messages of the conventions: a role and parts. */
export function genAiMessages(content: unknown, role: 'user' | 'assistant'): { role: string; parts: Part[] }[] {
  if (Array.isArray(content)) return content.map((item: Item) => genAiMessage(item))
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  return [{ role, parts: [{ type: 'text', content: text }] }]
}

function genAiMessage(item: Item): { role: string; parts: Part[] } {
  if (item['type'] === 'function_call') {
    const { call_id: id, name, arguments: args } = item
    return { role: 'assistant', parts: [{ type: 'tool_call', id, name, arguments: args }] }
  }
  if (item['type'] === 'function_call_output') {
    const { call_id: id, output: response } = item
    return { role: 'tool', parts: [{ type: 'tool_call_response', id, response }] }
  }
  const role = typeof item['role'] === 'string' ? item['role'] : 'assistant'
  const { content } = item
  if (typeof content === 'string') return { role, parts: [{ type: 'text', content }] }
  return { role, parts: Array.isArray(content) ? content.map(genAiPart) : [{ ...item }] }
}

function genAiPart(part: Item): Part {
  return typeof part['text'] === 'string' ? { type: 'text', content: part['text'] } : part
}
