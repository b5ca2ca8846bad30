import { z } from 'zod'

/** Version of the schema below. A process takes up only states of versions that it knows. */
const RUN_STATE_VERSION = 1

const CallStatus = z.enum(['pending', 'waiting', 'approved', 'rejected', 'started', 'done', 'unknown'])

/** One function call of the turn that is being worked on. */
const CallState = z.object({
  call_id: z.string(),
  name: z.string(),
  /** What carries it out. `hosted`: a tool server of the model's provider. `none`: nothing of that name is offered. */
  binding: z.enum(['function', 'handoff', 'hosted', 'none']),
  status: CallStatus,
  /** What a person has decided. Other arguments than the model's are JSON text. */
  decision: z
    .object({ approved: z.boolean(), reason: z.string().nullable(), arguments: z.string().nullable() })
    .nullable(),
})

/** Items of the conversation by their places, `[from, to)`, or an item that only the next request has. */
const InputPart = z.union([z.tuple([z.int(), z.int()]), z.record(z.string(), z.unknown())])

const ConversationState = z.object({
  id: z.string(),
  /** Null: the conversation with the user. Several children of one parent may be worked on at the same time. */
  parent: z.string().nullable(),
  /** The call of the parent that has opened it. */
  call_id: z.string().nullable(),
  depth: z.int(),
  /** The agent that was addressed, and who has the conversation now. */
  addressed: z.string(),
  agent: z.string(),
  caller: z.string().nullable(),
  agent_run_id: z.string(),
  phase: z.enum(['asking', 'calling', 'waiting', 'answered', 'failed']),
  /** Model requests since the last answer that a guardrail has refused. */
  turns: z.int(),
  /** Agents that have called something: their `toolChoice` may be spent. */
  called: z.array(z.string()),
  /** Answers that output guardrails have refused. */
  refused_answers: z.int(),
  input_checked: z.boolean(),
  /** How many items the conversation has, and which of them the next request sends. */
  items: z.int(),
  input: z.array(InputPart),
  calls: z.array(CallState),
})

/** All of a run that a process must know to go on with it, besides its items, its definitions and its connections. */
export const RunState = z.object({
  version: z.literal(RUN_STATE_VERSION),
  run_id: z.string(),
  agency: z.string(),
  trace_id: z.string(),
  conversations: z.record(z.string(), ConversationState),
})

export type RunState = Readonly<z.infer<typeof RunState>>
export type ConversationState = Readonly<z.infer<typeof ConversationState>>
export type CallState = Readonly<z.infer<typeof CallState>>
export type InputPart = z.infer<typeof InputPart>

/** Which function of an agent a call is for. */
export type CallBinding = Pick<CallState, 'call_id' | 'name' | 'binding'>

export type CallDecision = NonNullable<CallState['decision']>

type Opened = Pick<ConversationState, 'parent' | 'call_id' | 'addressed' | 'caller' | 'agent_run_id'>

/** What happens in a conversation. */
export type ConversationEvent =
  | ({ readonly type: 'opened' } & Opened)
  /** Items have joined the conversation, and with it the next request. */
  | { readonly type: 'items.added'; readonly count: number }
  | { readonly type: 'input.checked' }
  | { readonly type: 'asked' }
  | { readonly type: 'responded'; readonly calls: readonly CallBinding[] }
  /** A person must decide about the call. */
  | { readonly type: 'call.held'; readonly call_id: string }
  | { readonly type: 'call.decided'; readonly call_id: string; readonly decision: CallDecision }
  | { readonly type: 'call.started'; readonly call_id: string }
  | { readonly type: 'call.ended'; readonly call_id: string }
  | { readonly type: 'turn.ended' }
  | { readonly type: 'handed_over'; readonly agent: string; readonly agent_run_id: string }
  | { readonly type: 'input.chosen'; readonly input: readonly InputPart[] }
  | { readonly type: 'answer.refused'; readonly agent_run_id: string }
  /** It goes on when a person has decided. */
  | { readonly type: 'suspended' }
  | { readonly type: 'answered' }
  | { readonly type: 'failed' }

export function newRunState(run: {
  readonly runId: string
  readonly agency: string
  readonly traceId: string
}): RunState {
  return { version: RUN_STATE_VERSION, run_id: run.runId, agency: run.agency, trace_id: run.traceId, conversations: {} }
}

/**
 * The state after an event of one of the run's conversations. It changes nothing: whoever calls it keeps what it returns.
 *
 * @throws Error the event cannot follow: a conversation that was not opened, or a call that is not there.
 */
export function advance(state: RunState, id: string, event: ConversationEvent): RunState {
  const before = state.conversations[id]
  if (event.type === 'opened') {
    if (before) throw new Error(`conversation ${id} is open already`)
    const depth = event.parent === null ? 0 : known(state.conversations[event.parent], event.parent).depth + 1
    return withConversation(state, opened(id, event, depth))
  }
  return withConversation(state, next(known(before, id), event))
}

function withConversation(state: RunState, conversation: ConversationState): RunState {
  return { ...state, conversations: { ...state.conversations, [conversation.id]: conversation } }
}

function opened(
  id: string,
  { parent, call_id, addressed, caller, agent_run_id }: Opened,
  depth: number,
): ConversationState {
  return {
    id,
    parent,
    call_id,
    depth,
    addressed,
    agent: addressed,
    caller,
    agent_run_id,
    phase: 'asking',
    turns: 0,
    called: [],
    refused_answers: 0,
    input_checked: false,
    items: 0,
    input: [],
    calls: [],
  }
}

function next(
  conversation: ConversationState,
  event: Exclude<ConversationEvent, { readonly type: 'opened' }>,
): ConversationState {
  switch (event.type) {
    case 'items.added': {
      const items = conversation.items + event.count
      return { ...conversation, items, input: withRange(conversation.input, conversation.items, items) }
    }
    case 'input.checked':
      return { ...conversation, input_checked: true }
    case 'asked':
      return { ...conversation, phase: 'asking', turns: conversation.turns + 1, calls: [] }
    case 'responded': {
      if (event.calls.length === 0) return conversation
      const calls = event.calls.map((call) => ({ ...call, status: 'pending' as const, decision: null }))
      const called = [...new Set([...conversation.called, conversation.agent])]
      return { ...conversation, phase: 'calling', calls, called }
    }
    case 'call.held':
      return withCall(conversation, event.call_id, { status: 'waiting' })
    case 'call.decided': {
      const { call_id: callId, decision } = event
      return withCall(conversation, callId, { status: decision.approved ? 'approved' : 'rejected', decision })
    }
    case 'call.started':
      return withCall(conversation, event.call_id, { status: 'started' })
    case 'call.ended':
      return withCall(conversation, event.call_id, { status: 'done' })
    case 'turn.ended':
      return { ...conversation, phase: 'asking', calls: [] }
    case 'handed_over':
      return { ...conversation, agent: event.agent, agent_run_id: event.agent_run_id }
    case 'input.chosen':
      return { ...conversation, input: [...event.input] }
    case 'answer.refused': {
      const refused = conversation.refused_answers + 1
      return { ...conversation, phase: 'asking', refused_answers: refused, turns: 0, agent_run_id: event.agent_run_id }
    }
    case 'suspended':
      return { ...conversation, phase: 'waiting' }
    case 'answered':
    case 'failed':
      return { ...conversation, phase: event.type, calls: [] }
  }
}

/** Places that follow each other are one range, however many items a conversation has. */
function withRange(input: readonly InputPart[], from: number, to: number): InputPart[] {
  const last = input.at(-1)
  if (Array.isArray(last) && last[1] === from) return [...input.slice(0, -1), [last[0], to]]
  return [...input, [from, to]]
}

function withCall(
  conversation: ConversationState,
  callId: string,
  change: Pick<CallState, 'status'> & { readonly decision?: CallDecision },
): ConversationState {
  if (!conversation.calls.some(({ call_id }) => call_id === callId)) throw new Error(`there is no call ${callId}`)
  const calls = conversation.calls.map((call) => (call.call_id === callId ? { ...call, ...change } : call))
  return { ...conversation, calls }
}

function known(conversation: ConversationState | undefined, id: string): ConversationState {
  if (!conversation) throw new Error(`conversation ${id} was not opened`)
  return conversation
}
