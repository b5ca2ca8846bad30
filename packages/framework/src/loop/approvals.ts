import { isDeepStrictEqual } from 'node:util'
import type { WireItem } from '@bureau/protocol'
import { callBack } from '../agency/callback.ts'
import type { FunctionTool } from '../agency/function-tool.ts'
import type { HeldCall } from '../run/run.ts'
import type { CallDecision } from '../run/advance-run.ts'
import type { Conversation } from './conversation.ts'
import { callState } from './open-calls.ts'
import type { PreparedTurn } from './prepare-turn.ts'
import { argumentsOf } from './read-response.ts'
import { callIdOf } from './turn-items.ts'

/** A call, and what carries it out: the function of that name, or a tool server of the model's provider. */
type HoldableCall = { readonly call: WireItem; readonly tool: FunctionTool | 'hosted' | undefined }

/**
 * Marks the calls of the turn about which a person must decide, and announces none of them yet: the others are carried out first.
 *
 * It is asked before anything is carried out, so that nothing is half done, and again when the turn goes on, so that a rule that
 * has changed meanwhile counts. What a person has approved stays approved.
 *
 * @throws CallbackFailed a rule throws: nothing passes a broken rule.
 */
export async function holdCalls(
  conversation: Conversation,
  turn: PreparedTurn,
  calls: readonly HoldableCall[],
): Promise<void> {
  for (const { call, tool } of calls) {
    const state = callState(conversation, call)
    if (state?.status !== 'pending' && state?.status !== 'waiting') continue
    const isHeld = tool === 'hosted' || (await needsPerson(tool, turn, call))
    if (isHeld !== (state.status === 'waiting')) {
      conversation.advance({ type: isHeld ? 'call.held' : 'call.freed', call_id: state.call_id })
    }
    if (isHeld)
      conversation.run.held.push({ source: conversation.source, request: requestOf(conversation, { call, tool }) })
  }
}

/** A call whose arguments are not JSON is not asked about, because it fails. */
async function needsPerson(
  tool: FunctionTool | undefined,
  { context, agent }: PreparedTurn,
  call: WireItem,
): Promise<boolean> {
  if (!tool?.needsApproval) return false
  let input: unknown
  try {
    input = JSON.parse(argumentsOf(call) || '{}')
  } catch {
    return false
  }
  const callback = `needsApproval of the tool "${tool.name}" of the agent "${agent.name}"`
  return callBack(callback, () => tool.needsApproval!(context, input, call.call_id))
}

function requestOf({ agent, source }: Conversation, { call, tool }: HoldableCall): HeldCall['request'] {
  return {
    call_id: callIdOf(call),
    tool: String(call['name']),
    arguments: argumentsOf(call),
    agent,
    agent_run_id: source.agent_run_id,
    edit: typeof tool === 'object' && tool.checkEdit !== undefined,
  }
}

/** What the model reads in place of the output of a call that a person has rejected. */
export function rejectionText({ reason }: CallDecision): string {
  return `Not carried out: a person rejected this call.${reason ? ` Reason: ${reason}` : ''}`
}

/** What a person has put in place of the model's arguments. A form sends them also when nobody has changed them. */
export function changedArguments(call: WireItem, decision: CallDecision | null | undefined): string | undefined {
  const given = decision?.arguments ?? undefined
  try {
    return given !== undefined && isDeepStrictEqual(JSON.parse(given), JSON.parse(argumentsOf(call)))
      ? undefined
      : given
  } catch {
    return given // The model's own were not JSON.
  }
}

/** The output of a call with other arguments than the model's begins with them. */
export function withChangedArguments(output: unknown, changed: string): unknown {
  const note = `A person changed the arguments to ${changed}.`
  if (Array.isArray(output)) return [{ type: 'input_text', text: note }, ...output]
  return `${note}\n${String(output)}`
}

/** How a tool server of the model's provider gets the decision about its call. */
export function hostedDecision(call: WireItem, { approved, reason }: CallDecision): WireItem {
  const item = { type: 'mcp_approval_response', approval_request_id: call.id!, approve: approved }
  return reason ? { ...item, reason } : item
}
