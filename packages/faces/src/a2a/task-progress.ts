import { type ApprovalRequest, isTextDelta, type ModelEvent, RUN_ERRORS, type RunEnded } from '@bureau/protocol'
import type { LogEvent } from '@bureau/runtime'
import { deltaLiteral, isWithUser } from '../openai/model-event.ts'
import { answerOf } from '../answer.ts'
import type { FaceAgency } from '../face-host.ts'
import { approvalText } from '../openai/approval-text.ts'
import { stepOf } from '../steps.ts'
import type { TaskState } from './protocol.ts'

type TaskIds = { readonly taskId: string; readonly contextId: string }

type Status = { readonly state: TaskState; readonly message?: object; readonly timestamp: string }

const ARTIFACT_ID = 'answer'

/**
 * How far a task is, as a function of the events of its run. The answer is its one artifact: it grows by the text of the
 * message that is being written, and is replaced when another message begins.
 */
export class TaskProgress {
  readonly #ids: TaskIds
  readonly #served: FaceAgency
  readonly #now: () => string
  #status: Status
  #messages = 0
  /** The text of the answer as pieces of a JSON literal: they are joined, and never decoded. */
  #text: string[] = []
  #item: string | undefined
  /** The answer of an agent with a structured output. */
  #data: unknown

  /** @param now - The time of an event, in ISO 8601. Default: when it is seen. */
  constructor(ids: TaskIds, served: FaceAgency, now: () => string = () => new Date().toISOString()) {
    this.#ids = ids
    this.#served = served
    this.#now = now
    this.#status = { state: 'TASK_STATE_SUBMITTED', timestamp: now() }
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
    const copy = new TaskProgress(this.#ids, this.#served, this.#now)
    copy.#status = this.#status
    copy.#messages = this.#messages
    copy.#text = [...this.#text]
    copy.#item = this.#item
    copy.#data = this.#data
    return copy
  }

  /** A person has decided. */
  goOn(): void {
    this.#to('TASK_STATE_WORKING')
  }

  /** It was cancelled while it waited. */
  cancel(): void {
    this.#to('TASK_STATE_CANCELED')
  }

  /** Nobody learns any more what becomes of it. */
  fail(): void {
    const code = 'internal_error'
    this.#to('TASK_STATE_FAILED', [{ text: RUN_ERRORS[code].message }, { data: { code } }])
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
    this.#status = { state, ...(message && { message }), timestamp: this.#now() }
    return [JSON.stringify({ statusUpdate: { ...ids, status: this.#status } })]
  }

  #onModelEvent({ source, kind, json, item_id }: ModelEvent): readonly string[] {
    if (!isTextDelta(kind) || !isWithUser(source)) return []
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
  #lastChunk(ended: RunEnded): string[] {
    if (ended.status !== 'completed') return []
    const output = answerOf(ended, this.#served)
    if (typeof output !== 'string') {
      this.#data = output ?? null
      return [this.#update(JSON.stringify({ data: this.#data }), { lastChunk: true })]
    }
    if (this.#text.length > 0 && this.#answer === output)
      return [this.#update('{"text":""}', { append: true, lastChunk: true })]
    this.#text = [JSON.stringify(output).slice(1, -1)]
    return [this.#update(JSON.stringify({ text: output }), { lastChunk: true })]
  }

  #end({ status, error, approvals = [] }: RunEnded): string[] {
    if (status === 'completed') return this.#to('TASK_STATE_COMPLETED')
    if (status === 'cancelled') return this.#to('TASK_STATE_CANCELED')
    const state = error?.code === 'guardrail_tripped' ? 'TASK_STATE_REJECTED' : 'TASK_STATE_FAILED'
    if (error) return this.#to(state, [{ text: error.message }, { data: { code: error.code } }])
    const asked = approvals.map((approval) => approvalText(approval, undefined)).join('\n')
    return this.#to('TASK_STATE_INPUT_REQUIRED', [{ text: asked }, { data: { approvals: approvals.map(shown) } }])
  }
}

/** What the client is shown of a call that waits; the server keeps its token. */
function shown({ call_id, tool, arguments: args, agent, expires_at, edit }: ApprovalRequest): object {
  return { call_id, tool, arguments: args, agent, expires_at, edit }
}
