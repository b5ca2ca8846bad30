import {
  type CallState,
  type ConversationState,
  type InputPart,
  openedBy,
  type RunState,
  withRange,
} from './run-state.ts'

type TurnItemState = ConversationState['turn'][number]

/** Which function of an agent a call is for. */
export type CallBinding = Pick<CallState, 'call_id' | 'name' | 'binding' | 'repeatable'>

export type CallDecision = NonNullable<CallState['decision']>

type Opened = Pick<ConversationState, 'parent' | 'call_id' | 'addressed' | 'caller' | 'agent_run_id' | 'opened_at'>

/** What happens in a conversation. */
export type ConversationEvent =
  | ({ readonly type: 'opened' } & Opened)
  /** Items from outside the run have joined the conversation, and with it the next request. */
  | { readonly type: 'items.given'; readonly count: number }
  /** Items have joined it that are among the run's messages from `at` on. With them the turn that produced them is stored. */
  | { readonly type: 'items.stored'; readonly at: number; readonly count: number }
  | { readonly type: 'begun' }
  | { readonly type: 'input.checked' }
  | { readonly type: 'asked' }
  | { readonly type: 'responded'; readonly calls: readonly CallBinding[]; readonly turn: readonly TurnItemState[] }
  | { readonly type: 'turn.added'; readonly item: TurnItemState }
  /** A person must decide about the call, or need not any more. */
  | { readonly type: 'call.held' | 'call.freed'; readonly call_id: string }
  | { readonly type: 'call.decided'; readonly call_id: string; readonly decision: CallDecision }
  | { readonly type: 'call.started'; readonly call_id: string }
  | { readonly type: 'call.ended'; readonly call_id: string; readonly status: 'done' | 'unknown' }
  | { readonly type: 'turn.ended' }
  | { readonly type: 'handed_over'; readonly agent: string; readonly agent_run_id: string }
  | { readonly type: 'input.chosen'; readonly input: readonly InputPart[] }
  | { readonly type: 'answer.refused'; readonly agent_run_id: string }
  /** It goes on when a person has decided. */
  | { readonly type: 'suspended' }
  | { readonly type: 'answered' | 'failed'; readonly outcome: string | null }

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
    return withConversation({ ...state, opened: state.opened + 1 }, opened(id, event, depth))
  }
  const take = TRANSITIONS[event.type] as (before: ConversationState, event: ConversationEvent) => ConversationState
  const advanced = withConversation(state, take(known(before, id), event))
  return event.type === 'call.ended' ? withoutOpenedBy(advanced, id, event.call_id) : advanced
}

function withConversation(state: RunState, conversation: ConversationState): RunState {
  return { ...state, conversations: { ...state.conversations, [conversation.id]: conversation } }
}

/** The output of a call says all that matters of the conversations that it has opened. */
function withoutOpenedBy(state: RunState, parent: string, callId: string): RunState {
  const child = openedBy(state, parent, callId)
  if (!child) return state
  const left = new Set([child.id])
  const kept = Object.entries(state.conversations).filter(([id, each]) => {
    // Who asks was there before whom it asks, so that all below it come after it.
    if (each.parent !== null && left.has(each.parent)) left.add(id)
    return !left.has(id)
  })
  return { ...state, conversations: Object.fromEntries(kept) }
}

function opened(id: string, identity: Opened, depth: number): ConversationState {
  return {
    id,
    parent: identity.parent,
    call_id: identity.call_id,
    depth,
    addressed: identity.addressed,
    agent: identity.addressed,
    caller: identity.caller,
    agent_run_id: identity.agent_run_id,
    phase: 'asking',
    requested: false,
    turns: 0,
    called: [],
    refused_answers: 0,
    input_checked: false,
    opened_at: identity.opened_at,
    items: 0,
    input: [],
    given: 0,
    stored: [],
    begun: 0,
    calls: [],
    turn: [],
    outcome: null,
  }
}

type Transitions = {
  readonly [type in Exclude<ConversationEvent['type'], 'opened'>]: (
    conversation: ConversationState,
    event: ConversationEvent & { readonly type: type },
  ) => ConversationState
}

const TRANSITIONS: Transitions = {
  'items.given': (conversation, { count }) => {
    return { ...withItems(conversation, count), given: conversation.given + count }
  },
  'items.stored': (conversation, { at, count }) => {
    return { ...withItems(conversation, count), stored: withRange(conversation.stored, at, at + count), turn: [] }
  },
  begun: (conversation) => ({ ...conversation, begun: conversation.items }),
  'input.checked': (conversation) => ({ ...conversation, input_checked: true }),
  asked: (conversation) => {
    return { ...conversation, phase: 'asking', requested: true, turns: conversation.turns + 1, calls: [] }
  },
  responded: (conversation, { calls: asked, turn }) => {
    const calls = asked.map((call) => ({ ...call, status: 'pending' as const, decision: null }))
    const called = [...new Set([...conversation.called, conversation.agent])]
    return { ...conversation, phase: 'calling', requested: false, calls, called, turn: [...turn] }
  },
  'turn.added': (conversation, { item }) => ({ ...conversation, turn: [...conversation.turn, item] }),
  'call.held': (conversation, { call_id: id }) => withCall(conversation, id, { status: 'waiting' }),
  'call.freed': (conversation, { call_id: id }) => withCall(conversation, id, { status: 'pending' }),
  'call.decided': (conversation, { call_id: id, decision }) => {
    return withCall(conversation, id, { status: decision.approved ? 'approved' : 'rejected', decision })
  },
  'call.started': (conversation, { call_id: id }) => withCall(conversation, id, { status: 'started' }),
  'call.ended': (conversation, { call_id: id, status }) => withCall(conversation, id, { status }),
  'turn.ended': (conversation) => ({ ...conversation, phase: 'asking', calls: [] }),
  handed_over: (conversation, { agent, agent_run_id }) => ({ ...conversation, agent, agent_run_id }),
  'input.chosen': (conversation, { input }) => ({ ...conversation, input: [...input] }),
  'answer.refused': (conversation, { agent_run_id }) => {
    const refused_answers = conversation.refused_answers + 1
    return { ...conversation, refused_answers, turns: 0, agent_run_id, phase: 'asking', requested: false, calls: [] }
  },
  suspended: (conversation) => ({ ...conversation, phase: 'waiting' }),
  answered: ended,
  failed: ended,
}

function ended(
  conversation: ConversationState,
  { type: phase, outcome }: ConversationEvent & { readonly type: 'answered' | 'failed' },
): ConversationState {
  return { ...conversation, phase, outcome, requested: false, calls: [], turn: [] }
}

function withItems(conversation: ConversationState, count: number): ConversationState {
  const items = conversation.items + count
  return { ...conversation, items, input: withRange(conversation.input, conversation.items, items) }
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
