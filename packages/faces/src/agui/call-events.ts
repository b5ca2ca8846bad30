import { type AssistantMessage, EventType } from '@ag-ui/core'
import type { WireItem } from '@bureau/protocol'
import type { toAguiContent } from './content-parts.ts'
import { frame } from './frame.ts'
import type { AguiMessage } from './read-request.ts'
import { argumentsOf, hostedResult, toolNameOf } from './hosted-calls.ts'
import type { Entry, Tag, Transcript } from './transcript.ts'
import type { UniqueIds } from './unique-ids.ts'

/** Who makes a call, and in which conversation. */
type Caller = { readonly agent: string; readonly tag: Tag }

type Call = Caller & {
  /** As the client knows it. */
  readonly id: string
  /** As the provider knows it. */
  readonly callId: string
  readonly entry: Entry<AssistantMessage>
  streamed: string
  answered: boolean
  announced: boolean
}

/** Tool calls as `TOOL_CALL_*` events, one assistant message each. */
export class CallEvents {
  readonly #transcript: Transcript
  readonly #ids: UniqueIds
  readonly #contentOf: typeof toAguiContent
  /** By the item. */
  readonly #calls = new Map<string, Call>()
  /** By conversation and `call_id`: some model servers count calls from one in each answer. */
  readonly #byCallId = new Map<string, Call>()

  /** @param contentOf - How results are shown to this client. */
  constructor(transcript: Transcript, ids: UniqueIds, contentOf: typeof toAguiContent) {
    this.#transcript = transcript
    this.#ids = ids
    this.#contentOf = contentOf
  }

  /** Calls of earlier runs that have no result yet: their results may come in this one. */
  remember(messages: readonly AguiMessage[]): void {
    const answered = new Set(messages.flatMap((message) => (message.role === 'tool' ? [message.toolCallId] : [])))
    for (const message of messages) {
      if (message.role !== 'assistant') continue
      const { toolCalls = [], subagentRunId } = message
      const tag = subagentRunId === undefined ? {} : { subagentRunId }
      for (const { id } of toolCalls.filter((call) => !answered.has(call.id))) {
        // Only what the client knows of the call is needed; the message itself is its own already.
        const entry = { message: { id: message.id, role: 'assistant' as const }, open: false }
        const call = { id, callId: id, agent: '', tag, entry, streamed: '', answered: false, announced: true }
        this.#byCallId.set(placeOf(id, tag), call)
      }
    }
  }

  /** The id by which the client knows a call; undefined: it knows no such call. */
  idOf(callId: string, tag: Tag): string | undefined {
    return this.#byCallId.get(placeOf(callId, tag))?.id
  }

  /** The call by which an agent asked for something, as the client knows it. */
  find(
    callId: string | undefined,
    caller: string | null,
  ): { readonly id: string; readonly subagentRunId: string | undefined } | undefined {
    const call = [...this.#byCallId.values()].findLast((each) => each.callId === callId && each.agent === caller)
    return call && { id: call.id, subagentRunId: call.tag.subagentRunId }
  }

  start(key: string, item: WireItem, { agent, tag }: Caller): string {
    const abandoned = this.#close(key)
    const callId = item.call_id ?? item.id ?? 'call'
    const id = this.#ids.take(callId)
    // The message that holds the result has the call's id, so the one that holds the call needs another.
    const messageId = this.#ids.take(item.id ?? id)
    const name = toolNameOf(item)!
    const call = { id, type: 'function' as const, function: { name, arguments: '' } }
    const message: AssistantMessage = { id: messageId, role: 'assistant', toolCalls: [call], ...tag }
    const entry = this.#transcript.add(message, { open: true })
    const made: Call = { id, callId, agent, tag, entry, streamed: '', answered: false, announced: false }
    this.#calls.set(key, made)
    this.#byCallId.set(placeOf(callId, tag), made)
    const started = { type: EventType.TOOL_CALL_START, toolCallId: id, toolCallName: name } as const
    return abandoned + frame({ ...started, parentMessageId: messageId, ...tag })
  }

  /** Undefined: there is no such call. */
  delta(key: string, delta: string): string | undefined {
    const call = this.#calls.get(key)
    if (!call?.entry.open) return undefined
    if (delta === '') return ''
    call.streamed += delta
    call.entry.message.toolCalls![0]!.function.arguments = call.streamed
    return frame({ type: EventType.TOOL_CALL_ARGS, toolCallId: call.id, delta })
  }

  /** Ends the call's arguments. A call that the provider has carried out itself is answered at once. */
  end(key: string, item: WireItem, caller: Caller): string {
    const started = this.#calls.get(key)?.entry.open ? '' : this.start(key, item, caller)
    const call = this.#calls.get(key)!
    const rest = call.streamed === '' ? (this.delta(key, unstreamedArguments(item)) ?? '') : ''
    call.entry.message.toolCalls![0]!.function.arguments = argumentsOf(item)
    call.entry.open = false
    const ended = frame({ type: EventType.TOOL_CALL_END, toolCallId: call.id }) + this.#transcript.snapshot()
    const result = item.type === 'function_call' ? '' : this.#answer(call, hostedResult(item))
    return started + rest + ended + result
  }

  /** The run has taken the call over. A call that no model streamed is sent as a whole. */
  created(key: string, item: WireItem, caller: Caller): string {
    const known = this.#calls.get(key)
    const said = known && !known.entry.open && !known.announced ? '' : this.end(key, item, caller)
    this.#calls.get(key)!.announced = true
    return said
  }

  /** Undefined: the output belongs to no call that the client knows. */
  answer({ call_id: callId, output }: WireItem, tag: Tag): string | undefined {
    const call = callId === undefined ? undefined : this.#byCallId.get(placeOf(callId, tag))
    return call && !call.answered ? this.#answer(call, this.#contentOf(output)) : undefined
  }

  /** Closes what the run has left open. For the transcript it stays unfinished. */
  endAll(): string {
    const closed = [...this.#calls.keys()].map((key) => this.#close(key)).join('')
    this.#calls.clear()
    return closed
  }

  isUnanswered(entry: Entry): boolean {
    return [...this.#byCallId.values()].some((call) => call.entry === entry && !call.answered)
  }

  #close(key: string): string {
    const call = this.#calls.get(key)
    return call?.entry.open ? frame({ type: EventType.TOOL_CALL_END, toolCallId: call.id }) : ''
  }

  #answer(call: Call, content: ReturnType<typeof toAguiContent>): string {
    call.answered = true
    const message = { id: call.id, role: 'tool', toolCallId: call.id, content, ...call.tag } as const
    this.#transcript.add(message, { open: false })
    const result = { type: EventType.TOOL_CALL_RESULT, messageId: call.id, toolCallId: call.id, content } as const
    return frame({ ...result, role: 'tool', ...call.tag }) + this.#transcript.snapshot()
  }
}

function placeOf(callId: string, { subagentRunId = '' }: Tag): string {
  return `${subagentRunId} ${callId}`
}

/** A file search has no argument stream; its queries are in the finished message only. */
function unstreamedArguments(item: WireItem): string {
  const text = item.type === 'code_interpreter_call' ? item['code'] : item['arguments']
  return typeof text === 'string' ? text : ''
}
