import type { IncompleteReason } from './response-events.ts'

/** What a raw event of a model's stream says beyond the text, which the SDK's own events carry. */
export type AiSdkPart =
  | { readonly kind: 'reasoning'; readonly id: string; readonly delta: string; readonly hasMetadata: boolean }
  | { readonly kind: 'call_start'; readonly id: string; readonly name: string }
  | { readonly kind: 'call_delta'; readonly id: string; readonly delta: string }
  | { readonly kind: 'call_end' }
  | { readonly kind: 'finish'; readonly cutOff: IncompleteReason | undefined }
  | { readonly kind: 'other' }

type Fields = Readonly<Record<string, unknown>>

const OTHER: AiSdkPart = { kind: 'other' }

/** Reads a stream part of an AI SDK language model (specification v2 to v4), or a chunk of a chat completion. */
export function readPart(event: unknown): AiSdkPart {
  const part = asFields(event)
  const id = textOf(part['id']) || 'default'
  switch (part['type']) {
    case 'reasoning-start':
    case 'reasoning-delta':
    case 'reasoning-end':
      return { kind: 'reasoning', id, delta: textOf(part['delta']), hasMetadata: 'providerMetadata' in part }
    case 'tool-input-start':
      // A tool that the provider runs itself is no call for us; its item comes with the final answer.
      return part['providerExecuted'] === true ? OTHER : { kind: 'call_start', id, name: textOf(part['toolName']) }
    case 'tool-input-delta':
      return { kind: 'call_delta', id, delta: textOf(part['delta']) }
    case 'tool-call':
      return { kind: 'call_end' }
    case 'finish':
      return { kind: 'finish', cutOff: CUT_OFF[finishReasonOf(part['finishReason'])] }
    default:
      return readChunk(part)
  }
}

/** The reason in the words of the AI SDK: `stop`, `length`, `content-filter`, `tool-calls`, `error`, `other`, ... */
export function finishReasonOf(reason: unknown): string {
  return typeof reason === 'string' ? reason : textOf(asFields(reason)['unified'])
}

const CUT_OFF: Readonly<Record<string, IncompleteReason>> = {
  length: 'max_output_tokens',
  'content-filter': 'content_filter',
  content_filter: 'content_filter',
}

function readChunk({ choices }: Fields): AiSdkPart {
  const reason = Array.isArray(choices) ? asFields(choices[0])['finish_reason'] : undefined
  return typeof reason === 'string' ? { kind: 'finish', cutOff: CUT_OFF[reason] } : OTHER
}

function asFields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {}
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
