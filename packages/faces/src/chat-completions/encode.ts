import type { ModelEvent, RunEnded, RunEventOf, WireItem } from '@bureau/protocol'
import type { EncodeEvent, LogEvent } from '@bureau/runtime'
import { DONE, failedRun } from '../openai/api-error.ts'
import { approvalText } from '../openai/approval-text.ts'
import {
  createdItem,
  deltaLiteral,
  incompleteReason,
  isWithUser,
  itemOf,
  reasoningOf,
  refusalOf,
  StreamedMessages,
  textOf,
} from '../openai/model-event.ts'
import { chatUsage, completionId, finishReason, isAnswered } from './completion.ts'

type ChatStream = {
  readonly runId: string
  readonly approvalsUrl: string | undefined
  /** As the caller has named it. */
  readonly model: string
  readonly includeUsage: boolean
  /** The agent that was addressed, and the functions of the caller that it is offered. */
  readonly agent: string
  readonly functions: ReadonlySet<string>
}

/** A run as `chat.completion.chunk`s: one message, whatever agents and tools have had a part in it. */
export function chatEncoder(stream: ChatStream): EncodeEvent {
  const chunks = new ChatChunks(stream)
  return (event) => chunks.encode(event)
}

class ChatChunks {
  readonly #stream: ChatStream
  readonly #messages = new StreamedMessages()
  /** What every chunk begins and ends with. */
  readonly #head: string
  #begun = false
  #isBroken = false
  #textItem: string | undefined
  #hasText = false
  #hasReasoning = false
  #reasoningBreaks = false
  /** Calls of the caller's functions, by the items' ids, and whether their arguments were streamed. */
  readonly #calls = new Map<string, { readonly index: number; streamed: boolean }>()
  readonly #callIds: string[] = []
  #incomplete: string | undefined

  constructor(stream: ChatStream) {
    this.#stream = stream
    const { runId, model } = stream
    const head = { id: completionId(runId), object: 'chat.completion.chunk', created: Math.floor(Date.now() / 1_000) }
    this.#head = `data: ${JSON.stringify({ ...head, model }).slice(0, -1)}`
  }

  encode(event: LogEvent): string {
    if (this.#isBroken) return ''
    if (this.#begun) return this.#frames(event)
    this.#begun = true
    return this.#chunk('{"role":"assistant","content":""}') + this.#frames(event)
  }

  #frames(event: LogEvent): string {
    switch (event.type) {
      case 'model.event':
        return isWithUser(event.source) ? this.#onModelEvent(event) : ''
      case 'item.created':
        return isWithUser(event.source) ? this.#onItemCreated(event) : ''
      case 'oauth.redirect':
        return this.#text(JSON.stringify(`Sign in to ${event.server}: ${event.auth_url}`), `oauth ${event.state}`)
      case 'run.resumed':
        return event.withdrawn.length > 0 && this.#hasText ? this.#breakOff() : ''
      case 'approval.requested':
        return this.#text(JSON.stringify(approvalText(event, this.#stream.approvalsUrl)), `approval ${event.call_id}`)
      case 'run.ended':
        return this.#end(event)
      default:
        return ''
    }
  }

  #chunk(delta: string, finish: string | null = null): string {
    const reason = finish === null ? 'null' : `"${finish}"`
    return `${this.#head},"choices":[{"index":0,"delta":${delta},"finish_reason":${reason}}]}\n\n`
  }

  #onModelEvent(event: ModelEvent): string {
    switch (event.kind) {
      case 'response.output_text.delta':
        this.#messages.delta()
        return this.#text(deltaLiteral(event.json), event.item_id)
      case 'response.refusal.delta':
        this.#messages.delta()
        return this.#piece('refusal', deltaLiteral(event.json))
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        return this.#reasoning(deltaLiteral(event.json))
      case 'response.function_call_arguments.delta':
        return this.#arguments(event)
      case 'response.reasoning_summary_part.added':
        this.#reasoningBreaks = this.#hasReasoning
        return ''
      case 'response.output_item.added':
        return this.#onAdded(event)
      case 'response.output_item.done':
        return this.#onDone(event)
      case 'response.created':
        this.#incomplete = undefined
        return ''
      case 'response.incomplete':
        this.#incomplete = incompleteReason(event)
        return ''
      default:
        return ''
    }
  }

  /** @param literal - JSON text of a string. */
  #text(literal: string | undefined, item = ''): string {
    if (literal === undefined || literal === '""') return ''
    const isNext = this.#hasText && item !== this.#textItem
    this.#textItem = item
    this.#hasText = true
    return this.#piece('content', isNext ? `"\\n\\n${literal.slice(1)}` : literal)
  }

  #piece(member: string, literal: string | undefined): string {
    return literal === undefined ? '' : this.#chunk(`{"${member}":${literal}}`)
  }

  /** Clients look for it under either name. */
  #reasoning(literal: string | undefined): string {
    if (literal === undefined || literal === '""') return ''
    const text = this.#reasoningBreaks ? `"\\n\\n${literal.slice(1)}` : literal
    this.#reasoningBreaks = false
    this.#hasReasoning = true
    return this.#chunk(`{"reasoning_content":${text},"reasoning":${text}}`)
  }

  #isCallers({ type, name }: WireItem, agent: string): boolean {
    return type === 'function_call' && agent === this.#stream.agent && this.#stream.functions.has(String(name))
  }

  #onAdded(event: ModelEvent): string {
    const item = itemOf(event)
    if (item?.type === 'reasoning') this.#reasoningBreaks = this.#hasReasoning
    return item && this.#isCallers(item, event.source.agent) ? this.#startCall(item) : ''
  }

  #onDone(event: ModelEvent): string {
    const item = itemOf(event)
    if (item?.type === 'message') return this.#messages.finished() ? this.#whole(item) : ''
    if (item?.type === 'reasoning' && !this.#hasReasoning) return this.#reasoning(JSON.stringify(reasoningOf(item)))
    return item && this.#isCallers(item, event.source.agent) ? this.#endCall(item) : ''
  }

  #onItemCreated(event: RunEventOf<'item.created'>): string {
    const item = createdItem(event)
    if (item.type === 'message') return this.#messages.created() ? this.#whole(item) : ''
    return this.#isCallers(item, event.source.agent) ? this.#endCall(item) : ''
  }

  #whole(item: WireItem): string {
    const refusal = refusalOf(item)
    const text = this.#text(JSON.stringify(textOf(item)), item.id)
    return text + (refusal === '' ? '' : this.#piece('refusal', JSON.stringify(refusal)))
  }

  #startCall(item: WireItem): string {
    const index = this.#callIds.push(item.call_id ?? '') - 1
    this.#calls.set(item.id ?? item.call_id ?? '', { index, streamed: false })
    const call = { index, id: item.call_id, type: 'function', function: { name: item['name'], arguments: '' } }
    return this.#chunk(JSON.stringify({ tool_calls: [call] }))
  }

  #arguments(event: ModelEvent): string {
    const call = event.item_id === undefined ? undefined : this.#calls.get(event.item_id)
    const literal = call && deltaLiteral(event.json)
    if (!literal) return ''
    call.streamed = true
    return this.#chunk(`{"tool_calls":[{"index":${call.index},"function":{"arguments":${literal}}}]}`)
  }

  /** A call, and its arguments where they have not been streamed. It comes twice: from the model, and from the run. */
  #endCall(item: WireItem): string {
    const started = this.#callIds.includes(item.call_id ?? '') ? '' : this.#startCall(item)
    const call = this.#calls.get(item.id ?? item.call_id ?? '')
    if (!call || call.streamed) return started
    call.streamed = true
    const piece = [{ index: call.index, function: { arguments: item['arguments'] } }]
    return started + this.#chunk(JSON.stringify({ tool_calls: piece }))
  }

  /** Another process goes on with the run and has withdrawn a text of which the client has the beginning. */
  #breakOff(): string {
    this.#isBroken = true
    return `data: ${JSON.stringify(failedRun({ code: 'runner_lost', message: WITHDRAWN }).body)}\n\n${DONE}`
  }

  #end(ended: RunEnded): string {
    if (!isAnswered(ended)) {
      const { body } = failedRun(ended.error)
      return `data: ${JSON.stringify(body)}\n\n${DONE}`
    }
    const incomplete = this.#incomplete ?? (ended.error ? 'max_output_tokens' : undefined)
    const usage =
      this.#stream.includeUsage && ended.usage
        ? `${this.#head},"choices":[],"usage":${JSON.stringify(chatUsage(ended.usage))}}\n\n`
        : ''
    return `${this.#chunk('{}', finishReason(ended, incomplete))}${usage}${DONE}`
  }
}

const WITHDRAWN =
  'The server stopped while it wrote this. The run goes on elsewhere: send the request again with the same Idempotency-Key.'
