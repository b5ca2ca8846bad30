import type { ModelEvent, RunEnded } from '@bureau/protocol'
import type { LogEvent } from '@bureau/runtime'
import { deltaLiteral, isWithUser } from '../openai/model-event.ts'
import { stepOf } from '../steps.ts'
import type { TaskState } from './protocol.ts'

type TaskIds = { readonly taskId: string; readonly contextId: string }

type Status = { readonly state: TaskState; readonly message?: object; readonly timestamp: string }

const ARTIFACT_ID = 'answer'

/** Of a run that waits for a person's decision. */
const NO_APPROVALS = {
  code: 'approval_required',
  message: 'A person has to approve what the agency wants to do, which is not possible through this protocol.',
}

/**
 * How far a task is, as a function of the events of its run. The answer is its one artifact: it grows by the text of the
 * message that is being written, and is replaced when another message begins.
 */
export class TaskProgress {
  readonly #ids: TaskIds
  #status: Status
  #messages = 0
  /** The text of the answer as pieces of a JSON literal: they are joined, and never decoded. */
  #text: string[] = []
  #item: string | undefined
  /** The answer of an agent with a structured output. */
  #data: unknown

  constructor(ids: TaskIds, from?: TaskProgress) {
    this.#ids = ids
    this.#status = { state: 'TASK_STATE_SUBMITTED', timestamp: new Date().toISOString() }
    if (!from) return
    this.#status = from.#status
    this.#messages = from.#messages
    this.#text = [...from.#text]
    this.#item = from.#item
    this.#data = from.#data
  }

  get status(): Status {
    return this.#status
  }

  /** Undefined before there is any text. */
  get artifact(): object | undefined {
    if (this.#data !== undefined) return { artifactId: ARTIFACT_ID, parts: [{ data: this.#data }] }
    return this.#text.length > 0 ? { artifactId: ARTIFACT_ID, parts: [{ text: this.#answer }] } : undefined
  }

  /** The same state, which goes on by itself. */
  copy(): TaskProgress {
    return new TaskProgress(this.#ids, this)
  }

  /** Takes the next event. Returns what its readers are sent, each a `StreamResponse` as JSON. */
  apply(event: LogEvent): readonly string[] {
    switch (event.type) {
      case 'run.started':
        return this.#to('TASK_STATE_WORKING')
      case 'model.event':
        return this.#onModelEvent(event)
      case 'oauth.redirect': {
        const { state, server, auth_url } = event
        return this.#to('TASK_STATE_AUTH_REQUIRED', [{ text: stepOf(event)! }, { data: { state, server, auth_url } }])
      }
      case 'oauth.status':
        return event.status === 'authorized' ? this.#to('TASK_STATE_WORKING') : []
      case 'run.ended':
        return [...this.#lastChunk(event), ...this.#end(event)]
      default: {
        const step = stepOf(event)
        return step === undefined ? [] : this.#to('TASK_STATE_WORKING', [{ text: step }])
      }
    }
  }

  get #answer(): string {
    return JSON.parse(`"${this.#text.join('')}"`) as string
  }

  #to(state: TaskState, parts?: readonly object[]): string[] {
    const ids = this.#ids
    const message = parts && { messageId: `${ids.taskId}-${++this.#messages}`, role: 'ROLE_AGENT', parts, ...ids }
    this.#status = { state, ...(message && { message }), timestamp: new Date().toISOString() }
    return [JSON.stringify({ statusUpdate: { ...ids, status: this.#status } })]
  }

  #onModelEvent({ source, kind, json, item_id }: ModelEvent): readonly string[] {
    if (kind !== 'response.output_text.delta' || !isWithUser(source)) return []
    const literal = deltaLiteral(json)
    if (literal === undefined) return []
    const goesOn = item_id === this.#item && this.#text.length > 0
    this.#item = item_id
    if (!goesOn) this.#text = []
    this.#text.push(literal.slice(1, -1))
    return [this.#update(`{"text":${literal}}`, { append: goesOn })]
  }

  #update(part: string, flags: { readonly append?: boolean; readonly lastChunk?: boolean }): string {
    const ids = JSON.stringify(this.#ids).slice(1, -1)
    const marks = `${flags.append ? ',"append":true' : ''}${flags.lastChunk ? ',"lastChunk":true' : ''}`
    return `{"artifactUpdate":{${ids},"artifact":{"artifactId":"${ARTIFACT_ID}","parts":[${part}]}${marks}}}`
  }

  /** The answer is complete: the artifact becomes it, unless it is already. */
  #lastChunk({ status, output }: RunEnded): string[] {
    if (status !== 'completed') return []
    if (typeof output !== 'string') {
      this.#data = output ?? null
      return [this.#update(JSON.stringify({ data: this.#data }), { lastChunk: true })]
    }
    if (this.#text.length > 0 && this.#answer === output)
      return [this.#update('{"text":""}', { append: true, lastChunk: true })]
    this.#text = [JSON.stringify(output).slice(1, -1)]
    return [this.#update(JSON.stringify({ text: output }), { lastChunk: true })]
  }

  #end({ status, error }: RunEnded): string[] {
    if (status === 'completed') return this.#to('TASK_STATE_COMPLETED')
    if (status === 'cancelled') return this.#to('TASK_STATE_CANCELED')
    const state = error?.code === 'guardrail_tripped' ? 'TASK_STATE_REJECTED' : 'TASK_STATE_FAILED'
    const { code, message } = error ?? NO_APPROVALS
    return this.#to(state, [{ text: message }, { data: { code } }])
  }
}
