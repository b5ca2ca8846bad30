import { SseParser } from '@bureau/protocol'
import { ChatAnswer } from './chat-answer.ts'
import { toChatRequest } from './chat-request.ts'
import { type AnswerReader, postStream } from './post-stream.ts'
import { ResponseEventWriter } from './response-events.ts'
import { authorization, endpointUrl, type ModelEndpoint } from './responses.ts'
import { requireBoundedEvent } from './model-error.ts'
import type { ModelCallObserver, ResponsesRequest, ResponsesTransport } from '../agency/model-object.ts'

/**
 * The Chat Completions API over HTTP, for servers that do not offer the Responses API.
 *
 * Requests and answers are converted (chat-request.ts, chat-answer.ts); the observer sees Responses events.
 */
export function chatCompletionsTransport(endpoint: ModelEndpoint): ResponsesTransport {
  const url = endpointUrl(endpoint.baseUrl, 'chat/completions')
  return (request, { observer, signal, headers }) =>
    postStream({
      dispatcher: endpoint.dispatcher,
      url,
      headers: { ...headers, ...authorization(endpoint), ...endpoint.headers },
      body: JSON.stringify(toChatRequest(request, url)),
      signal,
      onSent: () => observer.onSent?.(),
      onRefused: () => observer.onRefused?.(),
      reader: new ChatAnswerReader(request, observer),
    })
}

class ChatAnswerReader implements AnswerReader {
  readonly #observer: ModelCallObserver
  readonly #answer: ChatAnswer
  readonly #parser = new SseParser()

  constructor(request: ResponsesRequest, observer: ModelCallObserver) {
    const usedCallIds = request.input.map((item) => item.call_id ?? '')
    this.#observer = observer
    this.#answer = new ChatAnswer(new ResponseEventWriter(observer, request), usedCallIds)
  }

  get ended(): boolean {
    return this.#answer.isWhole
  }

  push(text: string): Promise<void> | undefined {
    for (const frame of this.#parser.push(text)) this.#answer.read(frame.data)
    requireBoundedEvent(this.#parser.pending)
    return this.#observer.onBatchEnd()
  }

  end(): void {
    this.#answer.end()
  }
}
