import { ServiceError } from '@bureau/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { receiveCallback } from './authorization.ts'
import { callbackPage, PAGE_HEADERS, wantsPage } from './callback-page.ts'
import type { OAuthStateRegistry } from './oauth-state-registry.ts'
import { type CallbackAnswer, answerCallback } from './answer-callback.ts'

/** What authorization servers send browsers back with. */
export const CallbackParameters = z.object({
  state: z.string().min(1).max(512).describe('Names the sign-in. It works once.'),
  code: z.string().optional().describe('The authorization code.'),
  error: z.string().optional().describe('Why there is no code.'),
  error_description: z.string().optional().describe('The same in words.'),
})

export const SignedIn = z.object({ status: z.enum(['ok', 'pending']), state: z.string(), server_name: z.string() })

type SignInCallback = {
  readonly request: FastifyRequest
  readonly query: z.output<typeof CallbackParameters>
  /** Null: who comes back is not known. */
  readonly userId: string | null
}

/** Hands what an authorization server says to the run that waits for it, and says what to answer. */
export async function takeCallback(
  registry: OAuthStateRegistry,
  { request, query, userId }: SignInCallback,
): Promise<CallbackAnswer> {
  const search = request.url.slice(request.url.indexOf('?') + 1)
  return answerCallback(await receiveCallback(registry, { query, search, userId }), query.state)
}

/** A page with a title and a sentence for people, JSON for programs. @throws ServiceError `oauth_callback_rejected` */
export function answerSignIn(
  request: FastifyRequest,
  reply: FastifyReply,
  { result, title, text, state }: CallbackAnswer & { readonly state: string },
): FastifyReply {
  const succeeded = 'status' in result
  reply.header('referrer-policy', 'no-referrer').header('vary', 'accept')
  if (wantsPage(request.headers.accept)) {
    return sendSignInPage(reply.code(succeeded ? 200 : 400), { succeeded, title, text })
  }
  if (!succeeded) throw new ServiceError('oauth_callback_rejected', { message: result.detail })
  return reply.send({ status: result.status, state, server_name: result.server })
}

export function sendSignInPage(reply: FastifyReply, page: Parameters<typeof callbackPage>[0]): FastifyReply {
  return reply.headers({ ...PAGE_HEADERS }).send(callbackPage(page))
}
