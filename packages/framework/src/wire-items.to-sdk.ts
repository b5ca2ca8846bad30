import { HOSTED_KINDS } from './wire-items.hosted.ts'
import { toSdkOutputPart, toSdkPart, toSdkSummaryPart } from './wire-items.parts.ts'
import { type Draft, type Fields, isFields } from './wire-items.remainder.ts'

/** How one kind of wire item becomes an SDK item. */
export type Kind = {
  /** The SDK's own fields; undefined where they cannot hold the item. What they leave out goes to `providerData`. */
  readonly draft: (item: Fields) => Draft | undefined
  /** True: the SDK's request builder never sends this member of `providerData`. */
  readonly loses: (key: string) => boolean
  /** True: the SDK's request builder would throw, or send something else. */
  readonly misreads?: (item: Fields) => boolean
}

/** The kind of an item; undefined where the SDK has no item of its own for it. */
export function kindOf(item: Fields): Kind | undefined {
  const isMessage = item['type'] === undefined || item['type'] === 'message'
  return isMessage ? MESSAGES.get(item['role']) : KINDS.get(item['type'])
}

const STATUS = ['in_progress', 'completed', 'incomplete']

const MESSAGES: ReadonlyMap<unknown, Kind> = new Map<unknown, Kind>([
  ['system', { draft: inputMessage, loses: oneOf('id', 'role', 'content', 'phase') }],
  ['user', { draft: inputMessage, loses: oneOf('id', 'role', 'content', 'phase') }],
  [
    'assistant',
    {
      draft: assistantMessage,
      loses: oneOf('type', 'id', 'role', 'status', 'phase'),
      misreads: ({ phase }) => phase !== undefined && phase !== 'commentary' && phase !== 'final_answer',
    },
  ],
])

const KINDS: ReadonlyMap<unknown, Kind> = new Map<unknown, Kind>([
  [
    'function_call',
    {
      draft: (item) => ({ ...callFields(item), ...strings(item, 'name', 'arguments', 'namespace'), ...statusOf(item) }),
      loses: oneOf('type', 'id', 'call_id', 'name', 'arguments', 'namespace', 'status', 'caller'),
    },
  ],
  [
    'function_call_output',
    { draft: functionOutput, loses: oneOf('type', 'id', 'call_id', 'output', 'namespace', 'status', 'caller') },
  ],
  ['reasoning', { draft: reasoning, loses: oneOf('type', 'id', 'summary') }],
  [
    'computer_call',
    {
      draft: (item) => ({ ...callFields(item), ...statusOf(item), ...present(item, 'action', 'actions') }),
      loses: oneOf('type', 'id', 'call_id', 'action', 'actions', 'status'),
    },
  ],
  ['computer_call_output', { draft: computerOutput, loses: oneOf('type', 'id', 'call_id', 'output') }],
  [
    'shell_call',
    {
      draft: shellCall,
      loses: allBut('environment', 'created_by'),
      misreads: ({ status }) => typeof status !== 'string',
    },
  ],
  ['shell_call_output', { draft: shellOutput, loses: allBut('created_by'), misreads: hasUnusualShellOutput }],
  ['apply_patch_call', { draft: patchCall, loses: allBut('created_by') }],
  [
    'apply_patch_call_output',
    {
      draft: (item) => ({
        ...callFields(item),
        ...statusOf(item, ['completed', 'failed']),
        ...strings(item, 'output'),
      }),
      loses: allBut('created_by'),
    },
  ],
  ['tool_search_call', { draft: toolSearch, loses: toolSearchLoses, misreads: hasUnusualStatus }],
  ['tool_search_output', { draft: toolSearch, loses: toolSearchLoses, misreads: hasUnusualStatus }],
  [
    'program',
    {
      draft: (item) => ({ ...callFields(item), ...strings(item, 'code', 'fingerprint') }),
      loses: oneOf('type', 'id', 'call_id', 'code', 'fingerprint'),
    },
  ],
  [
    'program_output',
    {
      draft: (item) => ({ ...callFields(item), output: item['result'], ...statusOf(item) }),
      loses: oneOf('type', 'id', 'call_id', 'output', 'result', 'status'),
    },
  ],
  [
    'compaction',
    {
      draft: (item) => ({ ...strings(item, 'type', 'id', 'encrypted_content', 'created_by') }),
      loses: allBut('created_by'),
    },
  ],
  ...HOSTED_KINDS,
])

function inputMessage(item: Fields): Draft | undefined {
  const { content } = item
  const said = { ...strings(item, 'type', 'id', 'role') }
  if (!Array.isArray(content)) return { ...said, content }
  const parts = content.map(toSdkPart)
  return parts.includes(undefined) ? undefined : { ...said, content: parts }
}

/** The SDK knows an assistant's words only as a list of parts, with a status. */
function assistantMessage(item: Fields): Draft | undefined {
  const { content, phase } = item
  const parts = typeof content === 'string' ? [{ type: 'output_text', text: content }] : content
  const drafts = Array.isArray(parts) ? parts.map(toSdkPart) : [undefined]
  if (drafts.includes(undefined)) return undefined
  return {
    ...strings(item, 'type', 'id', 'role'),
    status: 'completed',
    ...statusOf(item),
    ...((phase === 'commentary' || phase === 'final_answer') && { phase }),
    content: drafts,
  }
}

function functionOutput(item: Fields): Draft | undefined {
  const { output, name, call_id: callId } = item
  const parts = Array.isArray(output) ? output.map(toSdkOutputPart) : undefined
  if (parts?.includes(undefined)) return undefined
  return {
    ...callFields(item),
    type: 'function_call_result',
    // The SDK demands a name, and does not send it.
    name: typeof name === 'string' ? name : callId,
    status: 'completed',
    ...statusOf(item),
    output: parts ?? output,
  }
}

function reasoning(item: Fields): Draft | undefined {
  const summary = item['summary'] ?? []
  const parts = Array.isArray(summary) ? summary.map(toSdkSummaryPart) : [undefined]
  return parts.includes(undefined) ? undefined : { ...strings(item, 'type', 'id'), content: parts }
}

function computerOutput(item: Fields): Draft | undefined {
  const { output } = item
  if (!isFields(output)) return undefined
  return {
    ...callFields(item),
    type: 'computer_call_result',
    output: { type: output['type'], data: output['image_url'] },
  }
}

function shellCall(item: Fields): Draft | undefined {
  const { action } = item
  if (!isFields(action)) return undefined
  const { timeout_ms: timeoutMs, max_output_length: maxOutputLength } = action
  const limits = { ...(timeoutMs != null && { timeoutMs }), ...(maxOutputLength != null && { maxOutputLength }) }
  return { ...callFields(item), ...statusOf(item), action: { commands: action['commands'], ...limits } }
}

function shellOutput(item: Fields): Draft | undefined {
  const { output, max_output_length: maxOutputLength } = item
  if (!Array.isArray(output)) return undefined
  return {
    ...callFields(item),
    ...statusOf(item),
    output: output.map((entry: unknown) => {
      if (!isFields(entry) || !isFields(entry['outcome']) || entry['outcome']['type'] !== 'exit') return entry
      const { exit_code: exitCode = null, ...outcome } = entry['outcome']
      return { ...entry, outcome: { ...outcome, exitCode } }
    }),
    ...(maxOutputLength != null && { maxOutputLength }),
  }
}

/** The SDK sends texts and outcomes anew, and nothing beside them. */
function hasUnusualShellOutput({ output }: Fields): boolean {
  const isUsual = (entry: unknown): boolean => {
    if (!isFields(entry) || !isFields(entry['outcome'])) return false
    const { stdout, stderr, outcome: _outcome, created_by: _createdBy, ...others } = entry
    const { type, exit_code: exitCode, ...more } = entry['outcome']
    if (typeof stdout !== 'string' || typeof stderr !== 'string') return false
    if (Object.keys(others).length > 0 || Object.keys(more).length > 0) return false
    return type === 'timeout' ? exitCode === undefined : typeof exitCode === 'number'
  }
  return !Array.isArray(output) || !output.every(isUsual)
}

function patchCall(item: Fields): Draft | undefined {
  const { operation } = item
  if (!isFields(operation)) return undefined
  const { move_to: moveTo, ...rest } = operation
  return { ...callFields(item), ...statusOf(item), operation: moveTo === undefined ? rest : { ...rest, moveTo } }
}

function toolSearch(item: Fields): Draft {
  const { execution } = item
  return {
    ...strings(item, 'type', 'id', 'status'),
    ...present(item, 'arguments', 'tools', 'call_id'),
    ...((execution === 'client' || execution === 'server') && { execution }),
  }
}

function toolSearchLoses(key: string): boolean {
  return ['type', 'id', 'status', 'arguments', 'tools', 'call_id', 'execution'].includes(key)
}

function hasUnusualStatus({ status }: Fields): boolean {
  return typeof status === 'string' && !STATUS.includes(status)
}

function callFields(item: Fields): Draft {
  const { call_id: callId, caller } = item
  const sdkCaller = callerOf(caller)
  return { ...strings(item, 'type', 'id'), callId, ...(sdkCaller && { caller: sdkCaller }) }
}

function callerOf(caller: unknown): Fields | undefined {
  if (!isFields(caller)) return undefined
  if (caller['type'] === 'direct') return { type: 'direct' }
  if (caller['type'] !== 'program') return undefined
  return { type: 'program', callerId: caller['caller_id'] }
}

function statusOf(item: Fields, known: readonly string[] = STATUS): Fields {
  const { status } = item
  return typeof status === 'string' && known.includes(status) ? { status } : {}
}

function strings(item: Fields, ...keys: readonly string[]): Fields {
  return Object.fromEntries(keys.filter((key) => typeof item[key] === 'string').map((key) => [key, item[key]]))
}

function present(item: Fields, ...keys: readonly string[]): Fields {
  return Object.fromEntries(keys.filter((key) => item[key] != null).map((key) => [key, item[key]]))
}

function oneOf(...keys: readonly string[]): (key: string) => boolean {
  return (key) => keys.includes(key)
}

function allBut(...keys: readonly string[]): (key: string) => boolean {
  return (key) => !keys.includes(key)
}
