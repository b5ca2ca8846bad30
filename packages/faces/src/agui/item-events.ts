import { randomUUID } from 'node:crypto'
import type { Interrupt } from '@ag-ui/core'
import type { EventSource, Message, ModelEvent, RunEnded, RunEventOf, WireItem } from '@bureau/protocol'
import { type ParsedEvent, parsedEvent } from '../openai/model-event.ts'
import { type AguiMessage, type AguiRun, knowsAll } from './read-request.ts'
import { CallEvents } from './call-events.ts'
import { toAguiContent, toAguiText } from './content-parts.ts'
import { rawFrame } from './frame.ts'
import { toolNameOf } from './hosted-calls.ts'
import { ReasoningEvents } from './reasoning-events.ts'
import { interruptIdOf } from './select-input.ts'
import { Subagents } from './subagents.ts'
import { TextEvents } from './text-events.ts'
import { type Tag, Transcript } from './transcript.ts'
import { UniqueIds } from './unique-ids.ts'

/**
 * The items of one run as AG-UI events. A method returns frames, `''` where the event is taken in without one, or
 * undefined where AG-UI has nothing for it, so that the caller passes it on as it is.
 */
export class ItemEvents {
  readonly #transcript: Transcript
  readonly #texts: TextEvents
  readonly #calls: CallEvents
  readonly #reasoning: ReasoningEvents | undefined
  readonly #subagents: Subagents
  readonly #run: AguiRun['run']
  /** The items by their place, for model servers that give their deltas no item id. */
  readonly #places = new Map<string, string>()

  constructor(run: AguiRun) {
    const ids = new UniqueIds(run.messages.flatMap((message) => [message.id, ...callIdsOf(message)]))
    const { onPartsLost = () => {} } = run
    const contentOf = knowsAll(run) ? toAguiContent : (output: unknown) => toAguiText(output, onPartsLost)
    this.#transcript = new Transcript(() => withFileSources(run.messages, run.fileSources?.()))
    this.#texts = new TextEvents(this.#transcript, ids)
    this.#calls = new CallEvents(this.#transcript, ids, contentOf)
    this.#calls.remember(run.messages)
    this.#reasoning = run.reasoning === false ? undefined : new ReasoningEvents(this.#transcript, ids)
    this.#subagents = new Subagents(ids, { announces: knowsAll(run) })
    this.#run = run.run
  }

  onAgentUpdated(source: EventSource): string {
    return this.#subagents.enter(source, this.#calls.find(source.parent_run_id, source.callerAgent))
  }

  onCustom(source: EventSource, data: Readonly<Record<string, unknown>>): string {
    return data['type'] === 'error' ? this.#subagents.fail(source, String(data['content'])) : ''
  }

  onModelEvent(event: ModelEvent): string | undefined {
    switch (event.kind) {
      case 'response.output_item.added':
      case 'response.output_item.done':
        return this.#onItem(event)
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        return this.#onDelta(event, (key, delta, tag) => this.#texts.delta(key, delta, tag))
      case 'response.function_call_arguments.delta':
      case 'response.code_interpreter_call_code.delta':
        return this.#onDelta(event, (key, delta) => this.#calls.delta(key, delta))
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        return this.#onDelta(event, (key, delta, tag) => this.#reasoning?.delta(key, delta, tag) ?? '')
      case 'response.reasoning_summary_part.done':
      case 'response.reasoning_text.done':
        return this.#reasoning?.endPart(this.#keyOf(event.source, parsedEvent(event.json))) ?? ''
      default:
        return undefined
    }
  }

  onItemCreated(event: RunEventOf<'item.created'>): string | undefined {
    const item = event.item.raw_item as WireItem
    const key = this.#keyOf(event.source, { item })
    switch (event.name) {
      case 'message_output_created':
        return this.#texts.created(key, item, this.#tag(event.source))
      case 'tool_called':
        if (toolNameOf(item) === undefined) return undefined
        return this.#calls.created(key, item, this.#caller(event.source)) + rawFrame(event)
      case 'tool_output':
        return this.#onOutput(item, event.source)
      case 'handoff_occured':
        return (this.#onOutput(item, event.source) ?? '') + rawFrame(event)
      default:
        return undefined
    }
  }

  /** A call waits: the run will end with this interrupt. */
  onApprovalRequested(event: RunEventOf<'approval.requested'>): Interrupt {
    const tag = this.#tag(event.source)
    const toolCallId = this.#calls.idOf(event.call_id, tag)
    const { runId = '', approvalsUrl } = this.#run ?? {}
    return {
      id: event.token ?? interruptIdOf(runId, event.call_id),
      reason: 'tool_call',
      message: `${event.agent} wants to use ${event.tool}.`,
      ...(toolCallId !== undefined && { toolCallId }),
      responseSchema: answerSchema(event.edit),
      expiresAt: event.expires_at,
      ...tag,
      metadata: {
        tool: event.tool,
        arguments: event.arguments,
        agent: event.agent,
        ...(approvalsUrl !== undefined && { approvalsUrl }),
      },
    }
  }

  /** Calls that the agent who talks with the user has made, by the ids under which the client knows them. */
  clientIdsOf(callIds: readonly string[] = []): string[] {
    return callIds.flatMap((callId) => this.#calls.idOf(callId, {}) ?? [])
  }

  /** Closes everything, and shows the conversation as it stands: calls that wait are part of it. */
  suspend(interrupts: readonly Interrupt[]): string {
    const closed = this.#endAll()
    const left = this.#subagents.suspendAll((id) =>
      interrupts.filter(({ subagentRunId }) => subagentRunId === id).map((each) => each.id),
    )
    this.#transcript.drop((entry) => entry.open)
    return closed + left + this.#transcript.snapshot()
  }

  /**
   * Closes everything, and takes out of the client's conversation what was not finished: half a message, and in a run
   * that did not complete also calls that were never answered.
   */
  settle(status: RunEnded['status']): string {
    const closed = this.#endAll()
    const left = this.#subagents.failAll('The agent was stopped before it had an answer.')
    const completed = status === 'completed'
    const dropped = this.#transcript.drop((entry) => entry.open || (!completed && this.#calls.isUnanswered(entry)))
    return closed + left + (dropped ? this.#transcript.snapshot() : '')
  }

  /** Another process goes on with the run: what was not finished, and what it knows nothing of, is taken back. */
  withdraw(itemIds: readonly string[]): string {
    const closed = this.#endAll()
    const dropped = this.#transcript.drop(({ open, message }) => open || itemIds.includes(message.id))
    return closed + (dropped ? this.#transcript.snapshot() : '')
  }

  /** Messages of the agent that talks with the user, whose events are not kept any more. */
  restore(messages: readonly Message[]): string {
    const own = messages.filter(({ callerAgent }) => callerAgent == null)
    return own.map((message) => this.#restored(message as WireItem)).join('')
  }

  #endAll(): string {
    return this.#texts.endAll() + this.#calls.endAll() + (this.#reasoning?.endAll() ?? '')
  }

  #restored(item: WireItem): string {
    const { agent_run_id, agent } = item as Message
    const key = `${agent_run_id} ${item.id ?? item.call_id}`
    if (item.type === 'message' && item.role === 'assistant') return this.#texts.created(key, item, {})
    if (item.type === 'function_call_output') return this.#calls.answer(item, {}) ?? ''
    if (toolNameOf(item) === undefined) return ''
    return this.#calls.created(key, item, { agent: agent ?? '', tag: {} })
  }

  #onItem(event: ModelEvent): string | undefined {
    const data = parsedEvent(event.json)
    const { item } = data
    if (!item) return ''
    const key = this.#keyOf(event.source, data)
    const tag = this.#tag(event.source)
    const added = event.kind === 'response.output_item.added'
    if (item.type === 'message') return added ? this.#texts.start(key, item.id, tag) : this.#texts.end(key, item, tag)
    if (item.type === 'reasoning') {
      return (added ? this.#reasoning?.start(key, item.id, tag) : this.#reasoning?.end(key, item, tag)) ?? ''
    }
    if (toolNameOf(item) === undefined) return undefined
    const caller = this.#caller(event.source)
    return added ? this.#calls.start(key, item, caller) : this.#calls.end(key, item, caller)
  }

  #onDelta(event: ModelEvent, add: (key: string, delta: string, tag: Tag) => string | undefined): string | undefined {
    const data = parsedEvent(event.json)
    return add(
      this.#keyOf(event.source, data),
      typeof data.delta === 'string' ? data.delta : '',
      this.#tag(event.source),
    )
  }

  #onOutput(item: WireItem, source: EventSource): string | undefined {
    const tag = this.#tag(source)
    const answered = this.#calls.answer(item, tag)
    return answered === undefined ? undefined : this.#subagents.leave(item.call_id, tag.subagentRunId) + answered
  }

  /** What tells an item apart from those of other agents: its id, or its place where that is all there is. */
  #keyOf(source: EventSource, { item, item_id, output_index }: ParsedEvent): string {
    const id = item_id ?? item?.id ?? item?.call_id
    const place = `${source.agent_run_id} #${output_index ?? 0}`
    if (id === undefined || id === PLACEHOLDER_ID) return this.#places.get(place) ?? place
    const key = `${source.agent_run_id} ${id}`
    if (output_index !== undefined) this.#places.set(place, key)
    return key
  }

  #caller(source: EventSource): { readonly agent: string; readonly tag: Tag } {
    return { agent: source.agent, tag: this.#tag(source) }
  }

  #tag(source: EventSource): Tag {
    const subagentRunId = this.#subagents.idOf(source)
    return subagentRunId === undefined ? {} : { subagentRunId }
  }
}

function callIdsOf(message: AguiRun['messages'][number]): string[] {
  return message.role === 'assistant' ? (message.toolCalls ?? []).map(({ id }) => id) : []
}

/** What an answer to an interrupt looks like. That it may hold other arguments tells a page to offer changing them. */
function answerSchema(edit: boolean): NonNullable<Interrupt['responseSchema']> {
  const properties = {
    approved: { type: 'boolean' },
    reason: { type: 'string', description: 'Why it is refused; the model reads it.' },
    ...(edit && { editedArgs: { type: 'object', description: 'Replaces all arguments.' } }),
  }
  return { type: 'object', properties, required: ['approved'] }
}

/** Some adapters of other model interfaces give every item this id. */
const PLACEHOLDER_ID = '__fake_id__'

/** The request's messages, with a note before the last one that says where this turn's files came from. */
function withFileSources(messages: readonly AguiMessage[], sources: WireItem | undefined): AguiMessage[] {
  if (typeof sources?.['content'] !== 'string') return [...messages]
  const note: AguiMessage = { id: `file_sources_${randomUUID()}`, role: 'system', content: sources['content'] }
  return [...messages.slice(0, -1), note, ...messages.slice(-1)]
}
