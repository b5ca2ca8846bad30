import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { answerClientError } from './client-errors.ts'

/** What the platform answers on a port that it shares; everything else belongs to the host. */
const OWN_PATHS = /^\/(?:v1|create_new_chat|create_agency_upload|get_completion_v2|healthz|readyz)(?:[/?]|$)/

/**
 * Lets the platform answer its paths on the server of another app, before that app sees the request: neither app's
 * keys, origins or parsers reach the other. Call it before the host listens; closing the host closes the platform first.
 */
export async function sharePort(host: FastifyInstance, platform: FastifyInstance): Promise<void> {
  await platform.ready()
  host.addHook('preClose', () => platform.close())
  await host.ready()
  const theirs = takeListeners(host, 'request')
  const dispatch = (request: IncomingMessage, response: ServerResponse): void => {
    if (OWN_PATHS.test(request.url ?? '')) platform.routing(request, response)
    else for (const listener of theirs) listener.call(host.server, request, response)
  }
  host.server.on('request', dispatch)
  host.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (!OWN_PATHS.test(request.url ?? '')) response.writeContinue()
    dispatch(request, response)
  })
  takeListeners(host, 'clientError')
  host.server.on('clientError', answerClientError)
  host.server.headersTimeout = platform.server.headersTimeout
}

function takeListeners(host: FastifyInstance, event: 'request' | 'clientError'): RequestListener[] {
  const listeners = host.server.listeners(event) as RequestListener[]
  host.server.removeAllListeners(event)
  return listeners
}
