import type { ApprovalRequest, Message } from '@bureau/protocol'
import { advance, type CallDecision } from './advance-run.ts'
import type { Agency } from '../agency/agency.ts'
import { newMessagesForClient, stamp } from '../history/history.ts'
import type { Run } from './run.ts'
import { type CallState, type ConversationState, inCallOrder, openHalves, type RunState } from './run-state.ts'

/** A run that waits, as whoever keeps no runs gets it back. */
export type HeldRun = {
  readonly state: RunState
  /** What agents have said to each other in the run, in conversations that wait. */
  readonly nested: readonly Message[]
  /** What its agents have called in the conversation with the user, and what came back: some protocols show none of it. */
  readonly steps: readonly Message[]
}

/** How calls are held that need an approval. */
export type ApprovalOptions = {
  /** How long a person may take to decide, in milliseconds. Default 604_800_000 (7 days). */
  readonly lifeMs?: number
  /** Makes the token with which a decision comes back, where the server keeps no runs. */
  readonly seal?: (request: ApprovalRequest, held: HeldRun) => Promise<string>
}

const LIFE_MS = 604_800_000

/** Shows whoever follows the run the calls that wait, when all else is done. */
export async function requestApprovals(
  run: Run,
  { lifeMs = LIFE_MS, seal }: ApprovalOptions = {},
): Promise<ApprovalRequest[]> {
  const expires_at = new Date(run.environment.now() + lifeMs).toISOString()
  const held = { state: run.state, nested: nestedMessages(run), steps: stepsOf(run) }
  const requests: ApprovalRequest[] = []
  for (const { source, request } of run.held) {
    const open: ApprovalRequest = { ...request, expires_at }
    const sealed = seal ? { ...open, token: await seal(open, held) } : open
    run.emit({ type: 'approval.requested', source, ...sealed })
    requests.push(sealed)
  }
  return requests
}

/**
 * What a run that waits has produced, as its client gets it: with the turns that wait, which are stored only when they end.
 *
 * @param messages - What is stored.
 * @param request - What the client has already, and the calls that it carries out.
 */
export function messagesWhileWaiting(
  messages: readonly Message[],
  state: RunState,
  { history = [], left = [] }: { readonly history?: readonly Message[]; readonly left?: readonly Message[] } = {},
): Message[] {
  const held = Object.values(state.conversations).flatMap(openHalves)
  return newMessagesForClient([...messages, ...openTurns(state)], history, [...held, ...left])
}

/** The items of turns that are not over, as they will be stored. */
function openTurns({ conversations, trace_id: run_trace_id }: RunState): Message[] {
  return Object.values(conversations).flatMap(({ turn, calls, agent, caller, agent_run_id, call_id: parent }) => {
    const source = { agent, callerAgent: caller, agent_run_id, ...(parent !== null && { parent_run_id: parent }) }
    return inCallOrder(turn, calls).map(({ item, timestamp, origin }) =>
      stamp(item, { ...source, run_trace_id, timestamp, ...(origin !== undefined && { message_origin: origin }) }),
    )
  })
}

/** What was said in conversations that wait, besides that with the user. */
function nestedMessages({ state, input, messages }: Run): Message[] {
  const waiting = new Set(Object.values(state.conversations).flatMap(({ call_id: id }) => id ?? []))
  const isNested = ({ callerAgent, parent_run_id: id }: Message): boolean =>
    callerAgent != null && id !== undefined && waiting.has(id)
  return [...input.history, ...messages, ...openTurns(state)].filter(isNested)
}

function stepsOf({ messages, state }: Run): Message[] {
  return [...messages, ...openTurns(state)].filter(({ role, callerAgent }) => role === undefined && callerAgent == null)
}

/** What a person has decided about a call. */
export type HeldDecision = CallDecision & {
  readonly call_id: string
  /** Absent: the first call of this id that waits. */
  readonly agent_run_id?: string
}

export type WaitingCall = Pick<CallState, 'call_id' | 'name'> & Pick<ConversationState, 'agent_run_id'>

/** The calls that wait for a person. */
export function waitingCalls({ conversations }: RunState): WaitingCall[] {
  return Object.values(conversations).flatMap(({ calls, agent_run_id }) =>
    calls.flatMap(({ call_id, name, status }) => (status === 'waiting' ? [{ call_id, name, agent_run_id }] : [])),
  )
}

/** Nobody waits for a decision in a conversation that has gone on. */
const OVERTAKEN: CallDecision = {
  approved: false,
  reason: 'The user has sent another message instead.',
  arguments: null,
}

/**
 * The state after decisions. Those about calls that do not wait change nothing.
 *
 * @param others - `rejectOthers`: calls that nobody has decided about are rejected, because the user has gone on.
 */
export function decideCalls(
  state: RunState,
  decisions: readonly HeldDecision[],
  { rejectOthers }: { readonly rejectOthers: boolean },
): RunState {
  const left = [...decisions]
  let decided = state
  for (const conversation of Object.values(state.conversations)) {
    for (const { call_id, status } of conversation.calls) {
      if (status !== 'waiting') continue
      const at = left.findIndex((each) => isAbout(each, call_id, conversation))
      const decision = at < 0 ? rejectOthers && OVERTAKEN : left.splice(at, 1)[0]!
      if (!decision) continue
      const { approved, reason, arguments: given } = decision
      const event = { type: 'call.decided', call_id, decision: { approved, reason, arguments: given } } as const
      decided = advance(decided, conversation.id, event)
    }
  }
  return decided
}

function isAbout({ call_id, agent_run_id }: HeldDecision, callId: string, conversation: ConversationState): boolean {
  return call_id === callId && (agent_run_id === undefined || agent_run_id === conversation.agent_run_id)
}

/**
 * The run as another one goes on with it that has everything in the history of its request: no item is the run's own any more,
 * so that it ends with what it has added. `missing` is what the history may lack.
 */
export function resumeInHistory(
  { state, missing: held }: Pick<HeldRun, 'state'> & { readonly missing: readonly Message[] },
  history: readonly Message[],
): { readonly state: RunState; readonly history: readonly Message[] } {
  const conversations = Object.values(state.conversations).map((each) => [each.id, ofHistory(each)] as const)
  const known = new Set(history.map(keyOf))
  const turns = Object.values(state.conversations).flatMap(({ turn }) => turn.map(({ item }) => item as Message))
  const missing = [...held, ...turns.filter(({ type }) => type === 'mcp_approval_request')]
  return {
    state: { ...state, conversations: Object.fromEntries(conversations) },
    history: [...history, ...missing.filter((item) => !known.has(keyOf(item)))],
  }
}

/** Calls of agents that ask each other may have one id, as some models number them: `parent_run_id` tells them apart. */
function keyOf({ type, call_id: callId, id, agent_run_id: runId, parent_run_id: parent, timestamp }: Message): string {
  return JSON.stringify([type ?? 'message', callId ?? id ?? [runId, timestamp], parent])
}

/** What the next request sends is the whole conversation again; its places are not those of the process before. */
function ofHistory(conversation: ConversationState): ConversationState {
  return { ...conversation, given: 0, stored: [], items: 0, begun: 0, input: [[0, 0]], turn: [], opened_at: 0 }
}

/** What is wrong with arguments that a person has given in place of the model's; undefined: nothing. */
export async function editProblem(
  agency: Agency,
  { agent, tool: name }: { readonly agent: string; readonly tool: string },
  input: unknown,
): Promise<string | undefined> {
  const tool = agency.agents.get(agent)?.tools.find((each) => each.type === 'function' && each.name === name)
  if (tool?.type !== 'function' || !tool.checkEdit) return 'the tool does not take changed arguments any more'
  return tool.checkEdit(input)
}
