import type {
  LanguageModelV2,
  LanguageModelV2StreamPart,
  LanguageModelV3,
  LanguageModelV3StreamPart,
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolResultOutput,
  SharedV4FileData,
} from '@ai-sdk/provider'
import { type LanguageModel, vendorOfModel } from '../../agency/language-model.ts'

type Streamed = Awaited<ReturnType<LanguageModelV4['doStream']>>
type OlderPart = LanguageModelV2StreamPart | LanguageModelV3StreamPart

/** A language model of any version, as one of version 4. The object is only called. */
export type ModelV4 = {
  readonly supportedUrls: LanguageModelV4['supportedUrls']
  doStream(options: LanguageModelV4CallOptions): PromiseLike<Pick<Streamed, 'stream'>>
  /** A part of its stream in the words of version 4. */
  readPart(part: LanguageModelV4StreamPart): LanguageModelV4StreamPart
}

export function asVersion4(object: LanguageModel): ModelV4 {
  const model = object as unknown as LanguageModelV2 | LanguageModelV3 | LanguageModelV4
  if (model.specificationVersion === 'v4') {
    return {
      supportedUrls: model.supportedUrls,
      doStream: (options) => model.doStream(options),
      readPart: (part) => part,
    }
  }
  return {
    supportedUrls: model.supportedUrls,
    doStream: (options) => model.doStream(olderOptions(options, object) as never) as ReturnType<ModelV4['doStream']>,
    readPart: (part) => newerPart(part as OlderPart),
  }
}

type Older = 'v2' | 'v3'

function olderOptions(
  { reasoning, prompt, tools, ...options }: LanguageModelV4CallOptions,
  model: LanguageModel,
): object {
  const version = model.specificationVersion as Older
  const vendor = vendorOfModel(model)
  const effort = reasoning && {
    providerOptions: {
      ...options.providerOptions,
      [vendor]: { reasoningEffort: reasoning, ...options.providerOptions?.[vendor] },
    },
  }
  return {
    ...options,
    ...effort,
    prompt: olderPrompt(prompt, version),
    ...(tools && { tools: version === 'v3' ? tools : tools.map(toolOfVersion2) }),
  }
}

function toolOfVersion2(tool: NonNullable<LanguageModelV4CallOptions['tools']>[number]): object {
  return tool.type === 'provider' ? { ...tool, type: 'provider-defined' } : tool
}

function olderPrompt(prompt: LanguageModelV4Prompt, version: Older): object[] {
  return prompt.map((message) => {
    if (message.role === 'system') return message
    const content = message.content.map((part) => {
      if (part.type === 'file' || part.type === 'reasoning-file') return { ...part, data: olderData(part.data) }
      return part.type === 'tool-result' ? { ...part, output: olderOutput(part.output, version) } : part
    })
    return { ...message, content }
  })
}

function olderData(data: SharedV4FileData): unknown {
  if (data.type === 'data') return data.data
  if (data.type === 'url') return data.url
  return data.type === 'text' ? Buffer.from(data.text).toString('base64') : data
}

function olderOutput(output: LanguageModelV4ToolResultOutput, version: Older): object {
  if (output.type !== 'content') return output
  const value = output.value.map((part) => {
    if (part.type !== 'file') return part
    const { data, mediaType } = part
    if (data.type === 'url') {
      return version === 'v3'
        ? { type: 'file-url', url: data.url.href }
        : { type: 'text', text: `[A file at ${data.url.href}]` }
    }
    return { type: version === 'v3' ? 'file-data' : 'media', data: olderData(data), mediaType }
  })
  return { ...output, value }
}

function newerPart(part: OlderPart): LanguageModelV4StreamPart {
  if (part.type === 'file') return { ...part, data: { type: 'data', data: part.data } }
  if (part.type !== 'finish' || typeof part.finishReason !== 'string') return part as LanguageModelV4StreamPart
  const { finishReason: reason, usage } = part
  const { inputTokens, outputTokens, cachedInputTokens, reasoningTokens } = usage
  return {
    type: 'finish',
    finishReason: reason === 'unknown' ? { unified: 'other', raw: undefined } : { unified: reason, raw: reason },
    usage: {
      inputTokens: { total: inputTokens, noCache: undefined, cacheRead: cachedInputTokens, cacheWrite: undefined },
      outputTokens: { total: outputTokens, text: undefined, reasoning: reasoningTokens },
    },
  }
}
