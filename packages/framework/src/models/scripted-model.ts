// oxlint-disable max-classes-per-file -- a model and the two ways in which a test of it fails
import type { WireItem } from '@bureau/protocol'
import { randomHex } from '../random-hex.ts'
import { responseUsage } from './answer-values.ts'
import { ResponseEventWriter } from './response-events.ts'
import type { ModelCallOptions, ModelTransport, ResponsesRequest } from '../agency/model-object.ts'

/** What a model is asked, as it was recorded. */
type RecordedModelCall = {
  /** The place of this call in `calls`, from 0. */
  readonly index: number
  readonly request: ResponsesRequest
  /** Aborts when the run is stopped. */
  readonly signal: AbortSignal
}

/** The items of an answer. */
type ScriptedAnswer = readonly WireItem[]

/** One answer of a script: items, a failure, or a function that answers by what was asked. */
type ScriptedStep = ScriptedAnswer | ScriptedError | ScriptedResponder

type ScriptedError = { readonly type: 'error'; readonly error: unknown }
type ScriptedResponder = {
  readonly type: 'responder'
  readonly respond: (call: RecordedModelCall) => ScriptedAnswer | Promise<ScriptedAnswer>
}

/** An item in which the model says something. */
export function assistantMessage(text: string): WireItem {
  return {
    type: 'message',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text, annotations: [] }],
  }
}

/** An item by which the model calls a function. Without `callId` the call gets an id of its own. */
export function functionCall(
  name: string,
  args: string | Readonly<Record<string, unknown>>,
  { callId = `call_${randomHex()}` }: { readonly callId?: string } = {},
): WireItem {
  const text = typeof args === 'string' ? args : JSON.stringify(args)
  return { type: 'function_call', call_id: callId, name, arguments: text, status: 'completed' }
}

/** An answer that fails. */
export function modelError(error: unknown): ScriptedError {
  return { type: 'error', error }
}

/** An answer that depends on what was asked. */
export function modelResponder(respond: ScriptedResponder['respond']): ScriptedResponder {
  return { type: 'responder', respond }
}

/** A model was asked more often than its script has answers. */
class UnexpectedModelCallError extends Error {
  override readonly name = 'UnexpectedModelCallError'
}

/** A script has answers that nobody has asked for. */
class UnconsumedModelStepsError extends Error {
  override readonly name = 'UnconsumedModelStepsError'
}

const NO_TOKENS = responseUsage({ input: 0, cached: 0, written: 0, output: 0, reasoning: 0 })

/** A model whose answers are written down beforehand. It records what it was asked. */
export class ScriptedModel implements ModelTransport {
  readonly name = 'scripted'
  readonly calls: RecordedModelCall[] = []
  readonly #steps: ScriptedStep[]

  constructor(steps: Iterable<ScriptedStep> = []) {
    this.#steps = [...steps]
  }

  get firstCall(): RecordedModelCall | undefined {
    return this.calls[0]
  }

  get lastCall(): RecordedModelCall | undefined {
    return this.calls.at(-1)
  }

  /** How many answers nobody has asked for yet. */
  get remainingSteps(): number {
    return this.#steps.length
  }

  /** Adds answers to the end of the script. */
  enqueue(...steps: readonly ScriptedStep[]): void {
    this.#steps.push(...steps)
  }

  /** @throws UnconsumedModelStepsError */
  assertComplete(): void {
    const { remainingSteps: left } = this
    if (left > 0)
      throw new UnconsumedModelStepsError(`The script has ${left} more answers than the model was asked for.`)
  }

  async request(request: ResponsesRequest, { observer, signal }: ModelCallOptions): Promise<void> {
    const call = { index: this.calls.length, request: structuredClone(request), signal }
    this.calls.push(call)
    const step = this.#steps.shift()
    if (!step) throw new UnexpectedModelCallError(`The script has no answer for call ${call.index}.`)
    if ('type' in step && step.type === 'error') throw step.error
    const items = 'type' in step ? await step.respond(call) : step
    signal.throwIfAborted()
    const writer = new ResponseEventWriter(observer, { model: this.name })
    writer.start()
    for (const item of items) write(writer, item)
    writer.complete(NO_TOKENS)
    await observer.onBatchEnd()
  }
}

/** Words and arguments come as they would from a provider: opened, in one piece, and finished. */
function write(writer: ResponseEventWriter, item: WireItem): void {
  const { content } = item
  if (item.type === 'message' && Array.isArray(content) && content.every(({ type }) => type === 'output_text')) {
    const message = writer.openMessage(item.id)
    for (const { text } of content as readonly { text: string }[]) message.text(text)
    message.done({ fields: item })
  } else if (item.type === 'function_call') {
    const callId = item.call_id === undefined ? {} : { callId: item.call_id }
    const call = writer.openFunctionCall({ name: String(item['name']), ...callId })
    call.arguments(String(item['arguments']))
    call.done()
  } else writer.item(item)
}
