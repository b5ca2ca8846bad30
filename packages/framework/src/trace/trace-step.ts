import type { ModelEvent, RunEnded, Usage, UsageByModel } from '@bureau/protocol'
import type { Agency } from '../agency/agency.ts'
import { usageOfResponse } from '../models/pricing.ts'

/** Returns the text of people, models or tools. Called only by observers that are set to record it. */
export type Content = () => unknown

/** Something that a run does and that takes time. Steps lie within each other as the agents' work does. */
export type RunStep =
  | { readonly kind: 'run'; readonly runId: string; readonly agency: Agency; readonly agent: string; content: Content }
  /** The time for which one agent is in control of a conversation. `callerAgent` is null in the conversation with the user. */
  | { readonly kind: 'agent'; readonly agent: string; readonly callerAgent: string | null }
  | { readonly kind: 'model'; readonly agent: string; readonly model: string; content: Content }
  | {
      readonly kind: 'tool'
      readonly agent: string
      readonly tool: string
      readonly callId: string
      readonly content: Content
    }

/** How a step ended. */
export type StepEnd = {
  /** Null: it went well. Otherwise `cancelled`, `tool_failed` or a code of docs/errors.md. */
  readonly errorCode: string | null
  /** Of model steps that were answered. */
  readonly response?: ResponseFacts
  /** Of the run itself. */
  readonly run?: RunEnded
  /** Of the run itself: what it has spent in this process, where its usage has that of others as well. */
  readonly spent?: readonly UsageByModel[]
  readonly content?: Content
}

export type ResponseFacts = {
  readonly id: string | null
  readonly model: string | null
  readonly status: string | null
  /** Tokens of this one answer. */
  readonly usage: Usage
}

/** A step while it is observed. Implementations are called in the middle of a run: they must not throw or wait. */
export interface RunSpan {
  /** A step begins within this one. */
  child(step: RunStep): RunSpan
  /** Of model steps: the first piece of the answer is here. */
  firstOutput(): void
  end(end: StepEnd): void
}

/** Watches runs: called when one begins. */
export type RunObserver = (run: RunStep & { readonly kind: 'run' }) => RunSpan

/** A step that ends once, whoever says so first. */
export class OpenStep {
  readonly span: RunSpan
  readonly #onEnd: () => void
  #ended = false

  constructor(span: RunSpan, onEnd: () => void) {
    this.span = span
    this.#onEnd = onEnd
  }

  end(end: StepEnd): void {
    if (this.#ended) return
    this.#ended = true
    this.#onEnd()
    this.span.end(end)
  }
}

/** They carry the finished response. */
export const FINAL_EVENTS = new Set(['response.completed', 'response.incomplete', 'response.failed'])

/** One request to a model. */
export class ModelStep extends OpenStep {
  #spoken = false
  #response: ResponseFacts | undefined

  take({ kind, json }: Pick<ModelEvent, 'kind' | 'json'>): void {
    if (!this.#spoken && (kind.endsWith('.delta') || kind === 'response.output_item.done')) {
      this.#spoken = true
      this.span.firstOutput()
    }
    if (FINAL_EVENTS.has(kind)) this.#response = readFacts(json)
  }

  answered(content: Content): void {
    this.end({ errorCode: null, content, ...(this.#response && { response: this.#response }) })
  }

  failed(errorCode: string): void {
    this.end({ errorCode, ...(this.#response && { response: this.#response }) })
  }
}

function readFacts(json: string): ResponseFacts {
  const { response = {} } = JSON.parse(json) as { response?: Readonly<Record<string, unknown>> }
  const text = (value: unknown): string | null => (typeof value === 'string' ? value : null)
  const { id, model, status, usage } = response
  return { id: text(id), model: text(model), status: text(status), usage: usageOfResponse(usage) }
}
