import { hash } from 'node:crypto'
import type { WireItem } from '@bureau/protocol'
import type { ToolResult } from '../agency/agent-options.ts'
import { CallbackFailed, callBack } from '../agency/callback.ts'
import { CallSuspended, type FunctionTool, TOOL_FAILURE, type ToolGuardrail } from '../agency/function-tool.ts'
import type { RunContext } from '../agency/run-context.ts'
import { linkedAbort } from '../agency/linked-abort.ts'
import { definitionOf } from '../agency/tool.ts'
import { toolServerOf } from '../mcp/server-tools.ts'
import { RunFailed } from '../run/run-errors.ts'
import { changedArguments, holdCalls, hostedDecision, rejectionText, withChangedArguments } from './approvals.ts'
import type { Conversation } from './conversation.ts'
import type { PreparedTurn } from './prepare-turn.ts'
import { limitedOutput, limitedText } from './limited-output.ts'
import { itemCreated, toolOutputCreated } from './item-events.ts'
import { callState, outputOf } from './open-calls.ts'
import { argumentsOf, type ReadResponse } from './read-response.ts'
import { toText, toWireOutput } from './tool-output.ts'
import { functionOutput } from './turn-items.ts'

type CallsOutcome = {
  /** The turn waits for a person. */
  readonly isHeld: boolean
  /** What the tools have returned is the agent's answer. */
  readonly answer: string | undefined
  /** The run ends here: the caller is to carry out these calls. */
  readonly left: readonly WireItem[]
}

/** What a model reads in place of the output of a call that the server has made once and must not make again. */
export const UNKNOWN_RESULT =
  'The result is unknown: the server stopped while this call was running; it may have happened.'

const ABANDONED = 'The result is unknown: the run ended while this call was running; it may have happened.'

/**
 * Carries out all function calls of a turn at the same time, and waits for all of them. That they are made is committed
 * before any is made, and what has become of each before it is shown. Calls of functions of the run's caller are left.
 *
 * Calls that need an approval wait. The other functions of the turn are carried out meanwhile, so that a person decides knowing what
 * they have done, and nothing is done twice; a handoff waits as well, because it ends the turn.
 *
 * When a call fails, the model gets the error. A failure that must end the run aborts the other calls, and is thrown when they have ended.
 *
 * @throws CallbackFailed a tool without words for its failures has failed. RunFailed a tool guardrail ends the run.
 */
export async function carryOutCalls(
  conversation: Conversation,
  turn: PreparedTurn,
  { calls, handoffs, hosted }: ReadResponse & { readonly kind: 'calls' },
): Promise<CallsOutcome> {
  const callers = new Set(turn.callerFunctions.map(({ name }) => name))
  const left = calls.filter((call) => callers.has(String(call['name'])) && !isDone(conversation, call))
  const own = left.length > 0 ? calls.filter((call) => !left.includes(call)) : calls
  const bindings = own.map((call) => ({ call, tool: functionNamed(turn, String(call['name'])) }))
  await holdCalls(conversation, turn, [...bindings, ...hosted.map((call) => ({ call, tool: 'hosted' as const }))])
  conversation.signal.throwIfAborted()
  const isHeld = conversation.state.calls.some(({ status }) => status === 'waiting')
  const handedOver = left.length > 0 || isHeld ? [] : handoffs.slice(0, 1)
  await start(conversation, [...own, ...handedOver.map(({ call }) => call)])
  await answerHosted(conversation, hosted)
  const stop = own.length > 1 ? linkedAbort(conversation.signal) : undefined
  const { signal } = stop ?? conversation
  const working = bindings.map(async (binding) => {
    try {
      return await carryOut(conversation, turn, { ...binding, signal })
    } catch (error) {
      if (error instanceof CallSuspended) return 'held'
      stop?.abort(error)
      throw error
    }
  })
  await Promise.allSettled(working)
  const results = await Promise.all(working)
  if (isHeld || results.includes('held')) return { isHeld: true, answer: undefined, left }
  const carriedOut = results.filter((each) => each !== undefined && each !== 'held')
  return { isHeld: false, answer: await answerOf(turn, carriedOut), left }
}

const isDone = (conversation: Conversation, call: WireItem): boolean => callState(conversation, call)?.status === 'done'

/** Nothing is begun that is not committed as begun. */
async function start(conversation: Conversation, calls: readonly WireItem[]): Promise<void> {
  const pending = new Set(
    conversation.state.calls.flatMap(({ status, call_id: id }) => (MAY_BEGIN.has(status) ? id : [])),
  )
  if (pending.size === 0) return
  // Another process may make them as well.
  if (conversation.run.control.mustHandOver) await conversation.run.commit()
  for (const { call_id: id } of calls)
    if (pending.has(id!)) conversation.advance({ type: 'call.started', call_id: id! })
  await conversation.run.commit()
}

/** The conversation ends here. Of the calls that were being made the model of the next run must know that they may have happened. */
export function abandonCalls(conversation: Conversation): void {
  if (!conversation.run.keepsConversation) return
  for (const { call_id, status } of conversation.state.calls)
    if (status === 'started') conversation.callReturned({ call_id }, functionOutput({ call_id }, ABANDONED), 'unknown')
}

const MAY_BEGIN = new Set<string>(['pending', 'approved'])

const UNKNOWN_FAILURE = new Error('The tool has thrown an error, which its maker does not pass on.')

type Binding = { readonly call: WireItem; readonly tool: FunctionTool | undefined }

export function functionNamed({ tools }: PreparedTurn, name: string): FunctionTool | undefined {
  return tools.find((tool): tool is FunctionTool => tool.type === 'function' && tool.name === name)
}

/** A tool server of the provider gets the decisions with the next request. */
async function answerHosted(conversation: Conversation, hosted: readonly WireItem[]): Promise<void> {
  for (const call of hosted) {
    const state = callState(conversation, call)
    if (!state?.decision || state.status === 'done') continue
    const decided = hostedDecision(call, state.decision)
    conversation.callReturned(call, decided)
    await conversation.run.commit()
    const created = itemCreated(decided, conversation.source)
    if (created) conversation.run.emit(created)
  }
}

/** Undefined: it waits, or was not carried out, and the model got the reason. */
async function carryOut(
  conversation: Conversation,
  turn: PreparedTurn,
  { call, tool, signal }: Binding & { readonly signal: AbortSignal },
): Promise<ToolResult | undefined> {
  const state = callState(conversation, call)
  if (state?.status === 'waiting') return undefined
  const known = outputOf(conversation, call)
  if (known) return tool && { type: 'function_output', tool, output: known['output'], item: known }
  if (!tool || state?.status === 'rejected') {
    const reason = tool ? rejectionText(state!.decision!) : `Tool '${String(call['name'])}' not found.`
    await returned(conversation, call, functionOutput(call, reason))
    return undefined
  }
  return use(conversation, turn, { call, tool, signal, changed: changedArguments(call, state?.decision) })
}

type Use = {
  readonly call: WireItem
  readonly tool: FunctionTool
  readonly signal: AbortSignal
  /** What a person has put in place of the model's arguments. */
  readonly changed: string | undefined
}

async function use(conversation: Conversation, turn: PreparedTurn, used: Use): Promise<ToolResult> {
  const { call, tool, changed } = used
  const { trace, agent } = conversation
  const { name } = tool
  trace?.toolStarted(agent, { tool: name, callId: call.call_id!, content: () => call['arguments'] })
  const output = await invoke(conversation, turn, used)
  const wireOutput = toWireOutput(output)
  const shown = changed === undefined ? wireOutput : withChangedArguments(wireOutput, changed)
  const item = limitedOutput(functionOutput(call, shown))
  // Tools made by the `tool()` of `@openai/agents` return this text and keep what was thrown.
  if (output === TOOL_FAILURE && !definitionOf(tool) && toolServerOf(tool) === undefined)
    conversation.toolFailed(name, UNKNOWN_FAILURE)
  trace?.toolEnded(agent, call.call_id!, toText(output))
  await returned(conversation, call, item)
  return { type: 'function_output', tool, output, item }
}

/** An output is committed before anybody sees it. */
export async function returned(conversation: Conversation, call: WireItem, output: WireItem): Promise<void> {
  const facts = conversation.toolFacts(call)
  conversation.callReturned(call, output, output['output'] === UNKNOWN_RESULT ? 'unknown' : 'done')
  await conversation.run.commit()
  conversation.run.emit(toolOutputCreated(output, conversation.source, facts))
}

async function invoke(
  conversation: Conversation,
  { context, agent }: PreparedTurn,
  { call, tool, signal, changed }: Use,
): Promise<unknown> {
  const argumentsText = changed ?? argumentsOf(call)
  const toolCall = { type: 'function_call', callId: call.call_id!, name: tool.name, arguments: argumentsText }
  const idempotencyKey = idempotencyKeyOf(conversation, call)
  const data = { context, agent, toolCall }
  try {
    if (conversation.wasStarted(call) && tool.repeatable !== true) {
      const found = await lookUp(conversation, tool, { context, idempotencyKey })
      if (found !== undefined) return found
    }
    const refused = await checked(tool.inputGuardrails, data)
    if (refused !== undefined) return refused
    signal.throwIfAborted()
    const output = await tool.invoke(context, argumentsText, { toolCall, signal, idempotencyKey })
    return (await checked(tool.outputGuardrails, { ...data, output })) ?? output
  } catch (cause) {
    signal.throwIfAborted()
    if (cause instanceof CallSuspended) throw cause
    throw cause instanceof RunFailed
      ? cause
      : new CallbackFailed(`the tool "${tool.name}" of the agent "${agent.name}"`, cause)
  }
}

/** What has become of a call that was begun and has no output; undefined when the tool knows that it was not made. */
async function lookUp(
  conversation: Conversation,
  { name, lookup }: FunctionTool,
  { context, idempotencyKey }: { readonly context: RunContext; readonly idempotencyKey: string },
): Promise<unknown> {
  if (!lookup) return UNKNOWN_RESULT
  try {
    return await lookup(context, idempotencyKey)
  } catch (error) {
    conversation.toolFailed(name, error)
    return UNKNOWN_RESULT
  }
}

/** The same for the same call in every process that works on the run, and for no other call. Fit for a header. */
function idempotencyKeyOf({ run, state }: Conversation, { call_id: callId }: WireItem): string {
  return hash('sha256', JSON.stringify([run.runId, state.id, callId]), 'base64url')
}

/** The message that the model gets in place of the output; undefined when all guardrails let the call pass. */
async function checked(
  guardrails: readonly ToolGuardrail[] = [],
  data: Parameters<ToolGuardrail['run']>[0],
): Promise<string | undefined> {
  for (const guardrail of guardrails) {
    const { behavior } = await guardrail.run(data)
    if (behavior?.type === 'rejectContent') return behavior.message
    if (behavior?.type === 'throwException') throw new RunFailed('guardrail_tripped')
  }
  return undefined
}

/** Whether the agent stops at its tools, and with which answer. */
async function answerOf({ agent, context }: PreparedTurn, results: readonly ToolResult[]): Promise<string | undefined> {
  const { toolUseBehavior: behavior } = agent
  if (behavior === 'run_llm_again' || results.length === 0) return undefined
  if (behavior === 'stop_on_first_tool') return limitedText(toText(results[0]!.output))
  if (typeof behavior === 'function') {
    return callBack(`toolUseBehavior of the agent "${agent.name}"`, async () => {
      const { isFinalOutput, finalOutput } = await behavior(context, results)
      return isFinalOutput ? (finalOutput ?? '') : undefined
    })
  }
  const first = results.find(({ tool }) => behavior.stopAtToolNames.includes(tool.name))
  return first && limitedText(toText(first.output))
}
