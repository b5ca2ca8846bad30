import type { WireItem } from '@bureau/protocol'
import type { LanguageModel } from './language-model.ts'

/** What an agent may have as its model besides a name. */
export type ModelObject = ModelTransport | LanguageModel

/** A Responses API request body. `input` is always a list here. */
export type ResponsesRequest = {
  readonly model?: string
  readonly instructions?: string
  readonly input: readonly WireItem[]
  readonly tools?: readonly Readonly<Record<string, unknown>>[]
  readonly [key: string]: unknown
}

/** The finished response of a Responses API request. */
export type ResponsesResponse = {
  readonly id: string
  readonly status?: string
  readonly model?: string
  readonly output: readonly WireItem[]
  readonly usage?: Readonly<Record<string, unknown>> | null
  readonly error?: { readonly code?: string; readonly message?: string } | null
  readonly incomplete_details?: { readonly reason?: string } | null
  readonly [key: string]: unknown
}

/** Receives the streaming events of one model request, in order. */
export interface ModelCallObserver {
  /** The request is on its way: from now on it may cost something, even if nothing comes back. */
  onSent?(): void
  /** The provider has refused it, so it has cost nothing. It may be sent again. */
  onRefused?(): void
  /** One event: its `type` and the JSON text in which it arrived. Never waits. */
  onEvent(kind: string, json: string): void
  /**
   * Called after each batch of events that arrived together. A promise means that the reader is behind: the transport
   * must read nothing more until it resolves.
   */
  onBatchEnd(): Promise<void> | undefined
}

export type ModelCallOptions = {
  readonly observer: ModelCallObserver
  /** Aborts the request; the transport then rejects with the signal's reason. */
  readonly signal: AbortSignal
  /** Extra request headers of the agent's model settings. */
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Sends one request to a model and streams its events to the observer, whatever the provider speaks, as Responses API
 * streaming events. Resolves after the last event (`response.completed`, `.incomplete` or `.failed`, or `error`).
 *
 * @throws ModelError the provider could not be reached, refused the request, or broke off.
 */
export type ResponsesTransport = (request: ResponsesRequest, call: ModelCallOptions) => Promise<void>

/** A model of one's own: give it to an agent as its `model`. */
export interface ModelTransport {
  /** Shown in usage and traces. */
  readonly name: string
  /** True: tools that a provider carries out itself are part of its requests. Default false: they are replaced. */
  readonly runsHostedTools?: boolean
  /** As `ResponsesTransport`. `ResponseEventWriter` writes the events of models that speak another language. */
  request(request: ResponsesRequest, call: ModelCallOptions): Promise<void>
}
