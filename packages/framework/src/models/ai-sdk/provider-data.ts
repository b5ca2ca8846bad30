import type { LanguageModelV4Message, SharedV4ProviderOptions } from '@ai-sdk/provider'
import { fieldsOf, isFields, type WireItem } from '@bureau/protocol'
import type { LanguageModel } from '../../agency/language-model.ts'

export type AssistantPart = Extract<LanguageModelV4Message, { role: 'assistant' }>['content'][number]
export type Metadata = SharedV4ProviderOptions

/**
 * The member `provider` of an item that a model of the AI SDK has made: what the Responses API has no place for and the
 * same model needs back, such as the signature of a thought. Other models never get it.
 */
export type ProviderData = {
  /** Who made the item: see `modelKey`. */
  readonly model: string
  readonly metadata?: Metadata
  /** Where the blocks of a message's text end, and what belongs to each. Absent when there is one block. */
  readonly blocks?: readonly { readonly end: number; readonly metadata?: Metadata }[]
  /** What the item is to its model, where the item itself cannot say it. */
  readonly parts?: readonly AssistantPart[]
}

export function modelKey({ provider, modelId }: LanguageModel): string {
  return `${provider}:${modelId}`
}

/** What an item carries for the model with this key; undefined for items of other models. Callers may send anything. */
export function providerDataOf(item: WireItem, key: string): ProviderData | undefined {
  const { model, metadata, blocks, parts } = fieldsOf(item['provider'])
  if (model !== key) return undefined
  return {
    model: key,
    ...metadataField(metadata),
    ...(Array.isArray(blocks) && { blocks: blocks.flatMap(readBlock) }),
    ...(Array.isArray(parts) && { parts: parts.filter(isPart) }),
  }
}

function readBlock(value: unknown): { end: number; metadata?: Metadata }[] {
  const { end, metadata } = fieldsOf(value)
  return typeof end === 'number' ? [{ end, ...metadataField(metadata) }] : []
}

function metadataField(value: unknown): { metadata?: Metadata } {
  const entries = Object.entries(fieldsOf(value)).filter(([, options]) => isFields(options))
  return entries.length === 0 ? {} : { metadata: Object.fromEntries(entries) as Metadata }
}

/** What each kind of part must have for a provider's package to read it. */
const PART_MEMBERS: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  text: [['text', 'string']],
  reasoning: [['text', 'string']],
  file: [
    ['mediaType', 'string'],
    ['data', 'object'],
  ],
  'reasoning-file': [
    ['mediaType', 'string'],
    ['data', 'object'],
  ],
  custom: [['kind', 'string']],
  'tool-call': [
    ['toolCallId', 'string'],
    ['toolName', 'string'],
  ],
  'tool-result': [
    ['toolCallId', 'string'],
    ['toolName', 'string'],
    ['output', 'object'],
  ],
}

function isPart(value: unknown): value is AssistantPart {
  const part = fieldsOf(value)
  const type = String(part['type'])
  if (!Object.hasOwn(PART_MEMBERS, type)) return false
  return PART_MEMBERS[type]!.every(([member, kind]) => typeof part[member] === kind && part[member] !== null)
}

/** Metadata of one block may come in several pieces; the members of each vendor are gathered. */
export function mergeMetadata(first: Metadata | undefined, second: Metadata | undefined): Metadata | undefined {
  if (!first || !second) return second ?? first
  const merged: Metadata = { ...first }
  for (const [vendor, options] of Object.entries(second)) merged[vendor] = { ...merged[vendor], ...options }
  return merged
}

/** The member of a prompt's part, or none. */
export function providerOptions(metadata: Metadata | undefined): { providerOptions?: Metadata } {
  return metadata ? { providerOptions: metadata } : {}
}
