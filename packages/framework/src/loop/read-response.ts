import type { WireItem } from '@bureau/protocol'
import type { AgencyHandoff } from '../agency/handoff.ts'
import { invalidAnswer } from '../models/model-error.ts'
import { RunFailed } from '../run/run-errors.ts'
import type { PreparedTurn } from './prepare-turn.ts'

/** What a finished response asks for. */
export type ReadResponse =
  | { readonly kind: 'answer'; readonly text: string }
  | {
      readonly kind: 'calls'
      /** Calls of functions, also of such as are not offered. */
      readonly calls: readonly WireItem[]
      /** Calls that hand over, in the model's order: the first one counts. */
      readonly handoffs: readonly { readonly call: WireItem; readonly handoff: AgencyHandoff }[]
      /** Calls that a tool server of the provider makes once they are approved. */
      readonly hosted: readonly WireItem[]
    }

/**
 * Finds out what the model wants. Words beside calls are never the answer. A response that has no text and asks for
 * nothing is an empty answer, because the same question would have the same end.
 *
 * @throws ModelError the response cannot be carried out: a call without an id, work at a computer, or an empty answer where a
 * structure was asked for.
 * @throws RunFailed `content_refused` the model refuses to give the structure that was asked for.
 */
export function readResponse({ handoffs, format }: PreparedTurn, output: readonly WireItem[]): ReadResponse {
  const calls = output.filter(({ type }) => type === 'function_call')
  requireUsableCalls(output, calls)
  const hosted = output.filter(({ type }) => type === 'mcp_approval_request')
  if (calls.length > 0 || hosted.length > 0) {
    const byName = new Map(handoffs.map((handoff) => [handoff.toolName, handoff]))
    const chosen = calls.flatMap((call) => {
      const handoff = byName.get(String(call['name']))
      return handoff ? [{ call, handoff }] : []
    })
    return { kind: 'calls', calls: calls.filter(({ name }) => !byName.has(String(name))), handoffs: chosen, hosted }
  }
  const text = textOf(output)
  if (format && text === '') {
    if (output.some(holdsRefusal)) throw new RunFailed('content_refused')
    throw invalidAnswer('the structured answer is empty')
  }
  return { kind: 'answer', text: text === '' && !format ? refusalIn(output) : text }
}

/** Work that only a machine of ours could do; nobody has offered it. */
const LOCAL_CALLS = new Set<unknown>(['computer_call', 'apply_patch_call', 'local_shell_call'])

function requireUsableCalls(output: readonly WireItem[], calls: readonly WireItem[]): void {
  const local = output.find(({ type }) => LOCAL_CALLS.has(type))
  if (local) throw invalidAnswer(`a ${local.type} that nobody has offered`)
  const ids = calls.map(({ call_id: id }) => id)
  if (ids.some((id) => typeof id !== 'string' || id === '')) throw invalidAnswer('a call has no id')
}

/** Thoughts may stand between the parts of an answer; without them the last message is the answer. */
function textOf(output: readonly WireItem[]): string {
  const texts = output.filter(isAnswer).map((item) => joined(item, 'output_text', 'text'))
  return output.some(({ type }) => type === 'reasoning') ? texts.join('') : (texts.at(-1) ?? '')
}

/** A refusal in words is an answer in words. */
function refusalIn(output: readonly WireItem[]): string {
  const last = output.findLast(isAnswer)
  return last ? joined(last, 'refusal', 'refusal') : ''
}

function holdsRefusal(item: WireItem): boolean {
  return isAnswer(item) && joined(item, 'refusal', 'refusal') !== ''
}

function isAnswer({ type, role }: WireItem): boolean {
  return type === 'message' && role === 'assistant'
}

function joined({ content }: WireItem, type: string, member: string): string {
  if (typeof content === 'string') return type === 'output_text' ? content : ''
  if (!Array.isArray(content)) return ''
  return (content as Readonly<Record<string, unknown>>[])
    .map((part) => (part?.['type'] === type && typeof part[member] === 'string' ? part[member] : ''))
    .join('')
}

/** The arguments of a function call: some servers leave them out when there are none. */
export function argumentsOf({ arguments: args }: WireItem): string {
  return typeof args === 'string' ? args : '{}'
}
