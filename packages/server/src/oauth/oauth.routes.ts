import { ServiceError } from '@bureau/protocol'
import {
  answerSignIn,
  type Call,
  CallbackParameters,
  param,
  sendSignInPage,
  SignedIn,
  takeCallback,
  wantsPage,
} from '@bureau/runtime'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { refusedOf, renderError } from '../http/render-error.ts'
import { named, rawRoute, type ServerRoute } from '../http/route.ts'
import type { SignIns } from './open-sign-ins.ts'
import { requireUser, USER_CHECK } from './run-user.ts'

const SignInStatus = z.object({
  state: z.string(),
  status: z.string().describe('`pending`, `authorized`, `error:<reason>` or `timeout`.'),
  auth_url: z.string(),
  server_name: z.string(),
  user_id: z.string(),
})

type CallbackCall = Call<object, z.output<typeof CallbackParameters>>

/** `/auth/callback`, where authorization servers send browsers back to, and what became of a sign-in. */
export function oauthRoutes(signIns: SignIns): ServerRoute[] {
  return [
    rawRoute(
      {
        ...named('handler_auth_callback_get'),
        method: 'GET',
        url: '/auth/callback',
        tag: 'sign-in',
        description: 'Where an authorization server sends the browser back to. Needs no token.',
        open: true,
        query: CallbackParameters,
        success: { 200: { contentType: 'text/html', json: SignedIn, description: 'Signed in; browsers get a page.' } },
        errors: ['oauth_callback_rejected', ...USER_CHECK.errors],
        otherResponses: USER_CHECK.otherResponses,
        fastify: { onRequest: keepPrivate, errorHandler: answerError },
      },
      (call, reply) => receive(signIns, call, reply),
    ),
    rawRoute(
      {
        ...named('handler_auth_status_get'),
        method: 'GET',
        url: '/auth/status/:state',
        tag: 'sign-in',
        description: 'What became of a sign-in, for the user who began it.',
        success: { 200: SignInStatus },
        errors: ['unknown_oauth_state', ...USER_CHECK.errors],
        otherResponses: USER_CHECK.otherResponses,
      },
      async (call, reply) => {
        reply.header('cache-control', 'no-store')
        return statusOf(signIns, param(call, 'state'), call.request)
      },
    ),
  ]
}

async function keepPrivate(_request: FastifyRequest, reply: FastifyReply): Promise<void> {
  reply.header('cache-control', 'no-store').header('referrer-policy', 'no-referrer')
}

async function receive(signIns: SignIns, { query, request }: CallbackCall, reply: FastifyReply): Promise<FastifyReply> {
  // Before anything else, so that nobody but the user can end a sign-in, by an error neither.
  const userId = signIns.verifyCallbackUser ? await requireUser(signIns, request) : null
  const answer = await takeCallback(signIns.registry, { request, query, userId })
  return answerSignIn(request, reply, { ...answer, state: query.state })
}

/** @throws ServiceError `unknown_oauth_state`: of other users' sign-ins nobody learns that they exist. */
async function statusOf(
  signIns: SignIns,
  asked: string,
  request: FastifyRequest,
): Promise<z.output<typeof SignInStatus>> {
  const userId = await requireUser(signIns, request)
  const flow = await signIns.registry.find(asked)
  if (!flow || flow.userId !== userId) {
    throw new ServiceError('unknown_oauth_state', { message: `Unknown OAuth state: ${asked}` })
  }
  const { state, status, authUrl, server } = flow
  return { state, status, auth_url: authUrl, server_name: server, user_id: userId }
}

const FAILED = 'Something failed on our side. Go back to your conversation and ask again.'

/** A refusal before the sign-in is looked at, for instance of a browser that has no session. */
function answerError(error: Error, request: FastifyRequest, reply: FastifyReply): void {
  if (!wantsPage(request.headers.accept)) {
    renderError(error, request, reply)
    return
  }
  const { status } = refusedOf(error, request)
  const known = error instanceof ServiceError ? error.message : 'This address is not valid.'
  const text = status >= 500 ? FAILED : known
  sendSignInPage(reply.code(status), { succeeded: false, title: 'Not signed in', text })
}
