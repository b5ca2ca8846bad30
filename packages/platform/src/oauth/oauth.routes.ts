import {
  ANOTHER_BROWSER,
  answerSignIn,
  CallbackParameters,
  SignedIn,
  takeCallback,
  type AuthorizationFlow,
  browserCookie,
  type CallbackAnswer,
  expiredBrowserCookie,
  isBeginningBrowser,
  NO_CONTENT,
  PAGE_HEADERS,
  param,
  startPage,
  answerCallback,
  wantsPage,
} from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { type Call, jsonRoute, rawRoute, type Route } from '../http/route.ts'
import { endOwnSignIns, endSignIns } from '../members/end-sign-ins.ts'

const StartQuery = z.object({
  continue: z.string().optional().describe('The click on the page: leads on to the identity provider.'),
})

const ConsumerQuery = z.object({
  consumerId: z.string().min(1).max(256).describe('As in completions; registered as a member or not.'),
})

/** Where browsers begin a sign-in and come back from identity providers, and how sign-ins are ended. */
export const oauthRoutes: readonly Route[] = [
  rawRoute(
    {
      method: 'GET',
      url: '/auth/start/:state',
      id: 'startSignIn',
      tag: 'Sign-ins',
      summary: "Begin a sign-in, in a user's browser",
      description:
        'Browsers get a page, whose click sets the cookie by which `/auth/callback` knows them again and leads on to the ' +
        'identity provider; programs are led on at once.',
      scope: null,
      query: StartQuery,
      success: { 200: { contentType: 'text/html', description: 'A page with a link to the provider.' }, 302: null },
      errors: ['oauth_callback_rejected'],
    },
    start,
  ),
  rawRoute(
    {
      method: 'GET',
      url: '/auth/callback',
      id: 'receiveSignIn',
      tag: 'Sign-ins',
      summary: "Take the answer of an identity provider, from a user's browser",
      description:
        'The run that asked for the sign-in goes on. Browsers get a page, programs `{status, state, server_name}`; a ' +
        'sign-in that did not work is a page too, of status 400.',
      scope: null,
      query: CallbackParameters,
      success: { 200: { contentType: 'text/html', json: SignedIn, description: 'The user is signed in.' } },
      errors: ['oauth_callback_rejected'],
    },
    receive,
  ),
  jsonRoute(
    {
      method: 'DELETE',
      url: '/v1/integrations/:integrationId/sign_ins',
      id: 'endSignIns',
      tag: 'Sign-ins',
      summary: 'End the sign-ins of a consumer: its tokens of tool servers are deleted',
      scope: 'members:write',
      query: ConsumerQuery,
      success: { 204: null },
      errors: ['integration_not_found'],
    },
    async (call: Call<z.output<typeof ConsumerQuery>>) => {
      const { ownerId, keyId: actor } = call.caller
      const consumer = { ownerId, integrationId: param(call, 'integrationId'), consumerId: call.query.consumerId }
      await call.platform.store.db.run(endSignIns, { ...consumer, actor })
      return NO_CONTENT
    },
  ),
  jsonRoute(
    {
      method: 'DELETE',
      url: '/v1/owner/sign_ins',
      id: 'endOwnSignIns',
      tag: 'Sign-ins',
      summary: 'End the sign-ins of completions that named no consumer',
      scope: 'members:write',
      everyIntegration: true,
      success: { 204: null },
      errors: [],
    },
    async ({ platform, caller: { ownerId, keyId: actor } }) => {
      await platform.store.db.run(endOwnSignIns, { ownerId, actor })
      return NO_CONTENT
    },
  ),
]

async function start(call: Call<z.output<typeof StartQuery>>, reply: FastifyReply): Promise<FastifyReply> {
  const { platform, query, request } = call
  const state = param(call, 'state')
  const flow = await platform.signIns.registry.find(state)
  if (flow?.status !== 'pending') return answerSignIn(request, reply, { ...answerClosed(flow, state), state })
  reply.header('referrer-policy', 'no-referrer').header('vary', 'accept')
  const site = request.headers['sec-fetch-site']
  const isBrowser = site !== undefined || wantsPage(request.headers.accept)
  // A page of somebody else's could lead here without the click. Older browsers do not say what page leads here.
  const hasClicked = query.continue !== undefined && (site === undefined || site === 'same-origin')
  if (isBrowser && !hasClicked) {
    return reply.headers({ ...PAGE_HEADERS }).send(startPage({ ...flow, continueUrl: '?continue' }))
  }
  return reply.header('set-cookie', browserCookie(flow)).redirect(flow.authUrl, 302)
}

/** Why a sign-in cannot be begun any more. */
function answerClosed(flow: AuthorizationFlow | undefined, state: string): CallbackAnswer {
  if (!flow) return answerCallback({ kind: 'unknown' }, state)
  return answerCallback({ kind: flow.status === 'error:abandoned' ? 'abandoned' : 'settled', flow }, state)
}

async function receive(call: Call<z.output<typeof CallbackParameters>>, reply: FastifyReply): Promise<FastifyReply> {
  const { platform, query, request } = call
  const { registry } = platform.signIns
  const { state } = query
  if (platform.config.signInPage) {
    const flow = await registry.find(state)
    if (flow?.status === 'pending') {
      if (!isBeginningBrowser(flow, request.headers.cookie))
        return answerSignIn(request, reply, { ...ANOTHER_BROWSER, state })
      reply.header('set-cookie', expiredBrowserCookie(flow))
    }
  }
  // Who the user is, the platform does not know: it has no session with the browsers of its owners' users.
  const answer = await takeCallback(registry, { request, query, userId: null })
  return answerSignIn(request, reply, { ...answer, state })
}
