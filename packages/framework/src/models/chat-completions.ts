import { SseParser } from '@bureau/protocol'
import { ChatAnswer } from './chat-answer.ts'
import { toChatRequest } from './chat-request.ts'
import { postStream } from './post-stream.ts'
import { ResponseEventWriter } from './response-events.ts'
import { authorization, endpointUrl, type ModelEndpoint } from './responses.ts'
import { ModelError, type ResponsesTransport } from './transport.ts'

/**
 * The Chat Completions API over HTTP, for servers that do not offer the Responses API.
 *
 * Requests and answers are converted (chat-request.ts, chat-answer.ts); the observer sees Responses events.
 */
export function chatCompletionsTransport(endpoint: ModelEndpoint): ResponsesTransport {
  const url = endpointUrl(endpoint.baseUrl, 'chat/completions')
  return async (request, { observer, signal, headers }) => {
    const body = JSON.stringify(toChatRequest(request, url))
    const usedCallIds = request.input.map((item) => item.call_id ?? '')
    const answer = new ChatAnswer(new ResponseEventWriter(observer, request), usedCallIds)
    const parser = new SseParser()
    await postStream({
      dispatcher: endpoint.dispatcher,
      url,
      headers: { ...headers, ...authorization(endpoint), ...endpoint.headers },
      body,
      signal,
      onText(text) {
        for (const frame of parser.push(text)) answer.read(frame.data)
        return observer.onBatchEnd()
      },
    })
    if (!answer.ended) throw new ModelError('upstream_invalid_response', { detail: 'the stream ended too early' })
  }
}
