import { isDeepStrictEqual } from 'node:util'
import { type AgentInputItem, type AgentOutputItem, protocol } from '#agents-core'
import type { WireItem } from '@bureau/protocol'
import { type Draft, type Fields, merged, sameMeaning, withRemainder } from './wire-items.remainder.ts'
import { type Kind, kindOf } from './wire-items.to-sdk.ts'
import { wireFieldsOf } from './wire-items.to-wire.ts'

/**
 * A wire item as the agents SDK takes it in. Never throws and never loses anything: `toWireItem` gives the same item
 * back.
 *
 * An item that the SDK has no form for, or whose meaning its request builder would change, becomes an `unknown` item,
 * which the SDK sends as it is. Metadata must have been taken off before (`withoutMetadata`).
 */
export function toSdkItem(item: WireItem): AgentInputItem {
  const kind = kindOf(item)
  const draft = kind && !kind.misreads?.(item) ? sdkDraft(kind, item) : undefined
  return draft && kind && isSentWhole(kind, draft, item) ? asSdkItem(draft) : verbatim(item)
}

export function toSdkItems(items: readonly WireItem[]): AgentInputItem[] {
  return items.map(toSdkItem)
}

/**
 * An item of a model's answer as the SDK acts on it. Unlike `toSdkItem` it keeps to the SDK's own form even where the
 * SDK would send the item back changed, so that no call is overlooked.
 */
export function toSdkOutputItem(item: WireItem): AgentOutputItem {
  const kind = kindOf(item)
  const draft = kind && sdkDraft(kind, item)
  return draft ? asSdkItem(draft) : verbatim(item)
}

/** An SDK item on the wire. Never throws: what is not known here is passed on as it is. */
export function toWireItem(item: AgentInputItem): WireItem {
  return wireFieldsOf(item as Draft)
}

/** Undefined when the SDK's own schema refuses the item, or when the way back would not lead to the same item. */
function sdkDraft(kind: Kind, item: WireItem): Draft | undefined {
  const typed = kind.draft(item)
  if (!typed) return undefined
  const draft = typed.providerData ? typed : withRemainder(typed, item, wireFieldsOf)
  if (!SCHEMAS[draft.type ?? 'message']?.safeParse(draft).success) return undefined
  return !draft.providerData || isDeepStrictEqual(wireFieldsOf(draft), merged(item)) ? draft : undefined
}

/** Nothing that the request builder passes over may say more than what it sends anyway. */
function isSentWhole(kind: Kind, draft: Draft, item: WireItem): boolean {
  const passedOver = Object.entries(draft.providerData ?? {}).filter(([key, value]) => value != null && kind.loses(key))
  if (passedOver.length === 0) return true
  const { providerData: _providerData, ...typed } = draft
  const said = wireFieldsOf(typed)
  return passedOver.every(([key]) => sameMeaning(item[key], said[key]))
}

function verbatim(item: WireItem): protocol.UnknownItem {
  return { type: 'unknown', ...(typeof item.id === 'string' && { id: item.id }), providerData: { ...item } }
}

/** The SDK's schema has accepted the draft. */
function asSdkItem(draft: Draft): AgentInputItem {
  return draft as unknown as AgentInputItem
}

const SCHEMAS: Readonly<Record<string, { safeParse(value: Fields): { readonly success: boolean } }>> = {
  message: protocol.MessageItem,
  function_call: protocol.FunctionCallItem,
  function_call_result: protocol.FunctionCallResultItem,
  reasoning: protocol.ReasoningItem,
  computer_call: protocol.ComputerUseCallItem,
  computer_call_result: protocol.ComputerCallResultItem,
  shell_call: protocol.ShellCallItem,
  shell_call_output: protocol.ShellCallResultItem,
  apply_patch_call: protocol.ApplyPatchCallItem,
  apply_patch_call_output: protocol.ApplyPatchCallResultItem,
  tool_search_call: protocol.ToolSearchCallItem,
  tool_search_output: protocol.ToolSearchOutputItem,
  program: protocol.ProgramCallItem,
  program_output: protocol.ProgramCallResultItem,
  compaction: protocol.CompactionItem,
  hosted_tool_call: protocol.HostedToolCallItem,
}
