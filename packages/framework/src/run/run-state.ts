import type { Message, WireItem } from '@bureau/protocol'
import { z } from 'zod'

/** Version of the schema below. A process takes up only states of versions that it knows. */
export const RUN_STATE_VERSION = 1

const CallStatus = z.enum(['pending', 'waiting', 'approved', 'rejected', 'started', 'done', 'unknown'])

/** One function call of the turn that is being worked on. */
const CallState = z.object({
  call_id: z.string(),
  name: z.string(),
  /** What carries it out. `hosted`: a tool server of the model's provider. `none`: nothing of that name is offered. */
  binding: z.enum(['function', 'handoff', 'hosted', 'none']),
  /** Whether it may be made again when nobody knows what became of it. */
  repeatable: z.boolean(),
  status: CallStatus,
  /** What a person has decided. Other arguments than the model's are JSON text. */
  decision: z
    .object({ approved: z.boolean(), reason: z.string().nullable(), arguments: z.string().nullable() })
    .nullable(),
})

/** Places in a list, `[from, to)`. */
const Range = z.tuple([z.int(), z.int()])

const Item = z.record(z.string(), z.unknown())

/** Items of the conversation by their places, or an item that only the next request has. */
const InputPart = z.union([Range, Item])

/** An item of the turn that is being worked on: it joins the run's messages with the whole turn. */
const TurnItem = z.object({ item: Item, timestamp: z.number(), origin: z.string().optional() })

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
  /** A model request is under way. */
  requested: z.boolean(),
  /** Model requests since the last answer that a guardrail has refused. */
  turns: z.int(),
  /** Agents that have called something: their `toolChoice` may be spent. */
  called: z.array(z.string()),
  /** Answers that output guardrails have refused. */
  refused_answers: z.int(),
  input_checked: z.boolean(),
  /** How many messages the run had produced when it was opened: what the two agents had said before is among them. */
  opened_at: z.int(),
  /** How many items the conversation has, and which of them the next request sends. */
  items: z.int(),
  input: z.array(InputPart),
  /** The first items, which are worked out from the request again, and where the others are among the run's messages. */
  given: z.int(),
  stored: z.array(Range),
  /** How many items there were when the agents began to work. */
  begun: z.int(),
  calls: z.array(CallState),
  /** What the running turn has produced since the model answered. */
  turn: z.array(TurnItem),
  /** What the agent that asks gets when the conversation is over; null for the conversation with the user. */
  outcome: z.string().nullable(),
})

/** All of a run that a process must know to go on with it, besides its items, its definitions and its connections. */
export const RunState = z.object({
  version: z.literal(RUN_STATE_VERSION),
  run_id: z.string(),
  agency: z.string(),
  trace_id: z.string(),
  /** How many conversations were opened. Those whose call has its output are not kept. */
  opened: z.int(),
  conversations: z.record(z.string(), ConversationState),
})

export type RunState = Readonly<z.infer<typeof RunState>>
export type ConversationState = Readonly<z.infer<typeof ConversationState>>
export type CallState = Readonly<z.infer<typeof CallState>>
type Range = z.infer<typeof Range>
export type InputPart = z.infer<typeof InputPart>

export function newRunState(run: {
  readonly runId: string
  readonly agency: string
  readonly traceId: string
}): RunState {
  const { runId: run_id, agency, traceId: trace_id } = run
  return { version: RUN_STATE_VERSION, run_id, agency, trace_id, opened: 0, conversations: {} }
}

/** The state as another process goes on from it: what was asked of a model must be asked again, and nothing waits any more. */
export function interrupted(state: RunState): RunState {
  const entries = Object.entries(state.conversations).map(([id, conversation]) => {
    const { turns, requested, phase } = conversation
    if (phase === 'waiting') return [id, { ...conversation, phase: 'calling' }] as const
    return [id, requested ? { ...conversation, requested: false, turns: turns - 1 } : conversation] as const
  })
  return { ...state, conversations: Object.fromEntries(entries) }
}

/** True: there was nothing left to do in a conversation but to ask the model. */
export function isAsking({ phase, calls }: ConversationState): boolean {
  const isOver = ({ status }: CallState): boolean => status === 'done' || status === 'unknown'
  return phase === 'asking' || (phase === 'calling' && calls.every(isOver))
}

/** True: no call is being made that another process could not make again. */
export function isAtRest({ conversations }: RunState): boolean {
  const isOpen = ({ status, repeatable }: CallState): boolean => status === 'started' && !repeatable
  return !Object.values(conversations).some(({ calls }) => calls.some(isOpen))
}

/** The conversation that a call has opened; undefined when there is none, or none any more. */
export function openedBy(state: RunState, parent: string, callId: string): ConversationState | undefined {
  return Object.values(state.conversations).find((each) => each.parent === parent && each.call_id === callId)
}

/**
 * The conversation with another number of items that come from outside: a chat may have lost its oldest messages
 * meanwhile.
 */
export function withGiven(conversation: ConversationState, given: number): ConversationState {
  const shift = given - conversation.given
  if (shift === 0) return conversation
  const input = conversation.input.flatMap((part): InputPart[] => {
    if (!isRange(part)) return [part]
    // The first item stays the first: what has come before it was left out by no one.
    const from = part[0] === 0 ? 0 : Math.max(0, part[0] + shift)
    const to = part[1] + shift
    return to > from ? [[from, to]] : []
  })
  const { items, begun } = conversation
  return { ...conversation, given, input, items: items + shift, begun: begun + shift }
}

export function isRange(part: InputPart): part is Range {
  return Array.isArray(part)
}

/** Places that follow each other are one range, however many there are. */
export function withRange<Part extends InputPart>(parts: readonly Part[], from: number, to: number): (Part | Range)[] {
  const last = parts.at(-1)
  if (last !== undefined && isRange(last) && last[1] === from) return [...parts.slice(0, -1), [last[0], to]]
  return [...parts, [from, to]]
}

/**
 * Tools that run at the same time finish in any order; the history has the order in which they were called.
 *
 * @param calls - All of the turn: some may not be part of it, because the client has them in its history.
 */
export function inCallOrder<Entry extends { readonly item: WireItem }>(
  turn: readonly Entry[],
  calls: readonly CallState[],
): Entry[] {
  const outputs = turn.filter(({ item }) => isOutput(item))
  if (outputs.length < 2) return [...turn]
  const own = turn.filter(({ item }) => !isOutput(item)).map(({ item }) => item.call_id)
  const order = [...own, ...calls.map(({ call_id: id }) => id)]
  outputs.sort((a, b) => order.indexOf(a.item.call_id) - order.indexOf(b.item.call_id))
  return turn.map((entry) => (isOutput(entry.item) ? outputs.shift()! : entry))
}

function isOutput({ type }: WireItem): boolean {
  return type?.endsWith('_output') ?? false
}

/** What will answer the calls of a turn that is not over: without it they would look as if they had been left. */
export function openHalves(conversation: ConversationState | undefined): Message[] {
  return (conversation?.calls ?? []).map(({ call_id: id, binding }) =>
    binding === 'hosted'
      ? { type: 'mcp_approval_response', approval_request_id: id }
      : { type: 'function_call_output', call_id: id },
  )
}
