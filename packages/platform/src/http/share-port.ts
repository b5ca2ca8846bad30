import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import type { Platform } from '../context.ts'
import { answerClientError } from './render-error.ts'

/** What the platform answers on a port that it shares; everything else belongs to the host. */
const OWN_PATHS =
  /^\/(?:v1|create_new_chat|create_agency_upload|get_completion_v2|healthz|readyz|auth\/start|(?:agui|a2a)\/int_\w+)(?:[/?]|$)/

/** Both speak these protocols here: a request is for the one whose credential it brings. */
const SHARED_PATHS = /^\/(?:openai\/v1|mcp|a2a|\.well-known\/agent-card\.json)(?:[/?]|$)/

/** A consumer token, or an API key: the second text is the beginning of the header of its JWT, with `apikey+jwt` as its type. */
const OWN_CREDENTIAL = /^Bearer (?:bct_|eyJhbGciOiJFZERTQSIsInR5cCI6ImFwaWtleStqd3Qi)/i

const isOwn = ({ url = '', headers }: IncomingMessage): boolean =>
  OWN_PATHS.test(url) || (SHARED_PATHS.test(url) && OWN_CREDENTIAL.test(headers.authorization ?? ''))

/** Both may have sign-ins under way, and providers send browsers of both here. */
const CALLBACK = /^\/auth\/callback(?:[/?]|$)/

type Sharing = { readonly app: FastifyInstance; readonly platform: Pick<Platform, 'signIns'> }

/**
 * Lets the platform answer its paths on the server of another app, before that app sees the request: neither app's
 * keys, origins or parsers reach the other. Call it before the host listens; closing the host closes the platform first.
 */
export async function sharePort(host: FastifyInstance, { app, platform }: Sharing): Promise<void> {
  await app.ready()
  host.drains.push(() => app.close())
  await host.ready()
  if (host.consoleFacts) host.consoleFacts.platform = true
  const theirs = takeListeners(host, 'request')
  const hasCallback = host.hasRoute({ method: 'GET', url: '/auth/callback' })
  const dispatch = (request: IncomingMessage, response: ServerResponse): void => {
    const hand = (own: boolean): void => {
      if (own) app.routing(request, response)
      else for (const listener of theirs) listener.call(host.server, request, response)
    }
    const url = request.url ?? ''
    if (!CALLBACK.test(url) || !hasCallback) hand(isOwn(request) || CALLBACK.test(url))
    else void hasBegun(platform, url).then(hand, () => hand(true))
  }
  host.server.on('request', dispatch)
  host.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (!isOwn(request)) response.writeContinue()
    dispatch(request, response)
  })
  takeListeners(host, 'clientError')
  host.server.on('clientError', answerClientError)
  host.server.headersTimeout = app.server.headersTimeout
  host.server.requestTimeout = app.server.requestTimeout
}

/** Whether the sign-in that a callback belongs to is the platform's. */
async function hasBegun({ signIns }: Sharing['platform'], url: string): Promise<boolean> {
  const state = new URLSearchParams(url.slice(url.indexOf('?') + 1)).get('state')
  return state !== null && (await signIns.registry.find(state)) !== undefined
}

function takeListeners(host: FastifyInstance, event: 'request' | 'clientError'): RequestListener[] {
  const listeners = host.server.listeners(event) as RequestListener[]
  host.server.removeAllListeners(event)
  return listeners
}
