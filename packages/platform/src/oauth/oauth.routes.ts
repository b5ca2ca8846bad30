import { ServiceError } from '@bureau/protocol'
import { callbackPage, PAGE_HEADERS, receiveCallback, tellCallback, wantsPage } from '@bureau/runtime'
import { z } from 'zod'
import { rawRoute, type Route } from '../http/route.ts'

const Query = z.object({
  state: z.string().min(1).max(512).describe('Names the sign-in. It works once.'),
  code: z.string().optional().describe('What the provider gives for tokens.'),
  error: z.string().optional().describe('Why there is no code.'),
  error_description: z.string().optional(),
})

/** Where identity providers send browsers back to. */
export const oauthRoutes: readonly Route[] = [
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
      query: Query,
      success: { 200: { contentType: 'text/html', description: 'The user is signed in.' } },
      errors: ['oauth_callback_rejected'],
    },
    async ({ platform, query, request }, reply) => {
      const search = request.url.slice(request.url.indexOf('?') + 1)
      // `state` alone decides: the platform has no session with the browsers of its owners' users.
      const outcome = await receiveCallback(platform.signIns.registry, { query, search, userId: null })
      const { result, title, text } = tellCallback(outcome, query.state)
      const succeeded = 'status' in result
      reply.header('referrer-policy', 'no-referrer').header('vary', 'accept')
      if (wantsPage(request.headers.accept)) {
        reply.code(succeeded ? 200 : 400).headers({ ...PAGE_HEADERS })
        return reply.send(callbackPage({ succeeded, title, text }))
      }
      if (!succeeded) throw new ServiceError('oauth_callback_rejected', { message: result.detail })
      return reply.send({ status: result.status, state: query.state, server_name: result.server })
    },
  ),
]
