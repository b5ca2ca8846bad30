import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ServiceError } from '@bureau/protocol'
import {
  type CallbackAnswer,
  callbackPage,
  PAGE_HEADERS,
  receiveCallback,
  tellCallback,
  wantsPage,
} from '@bureau/runtime'
import { z } from 'zod'
import { InvalidBody } from '../http/invalid-body.ts'
import { renderError } from '../http/render-error.ts'
import type { SignIns } from './open-sign-ins.ts'
import { requireUser } from './run-user.ts'

const Query = z.object({
  state: z.string().min(1).max(512),
  code: z.string().optional(),
  error: z.string().optional(),
  error_description: z.string().optional(),
})

/** `/auth/callback`, where providers send browsers back to, and `/auth/status/{state}`. */
export function oauthRoutes(app: FastifyInstance, signIns: SignIns): void {
  app.get('/auth/callback', { errorHandler: answerError }, async (request, reply) => {
    reply.header('cache-control', 'no-store').header('referrer-policy', 'no-referrer')
    const query = readQuery(request.query)
    // Before anything else, so that nobody but the user can end a sign-in, by an error neither.
    const userId = signIns.verifyCallbackUser ? await requireUser(signIns, request) : null
    const search = request.url.slice(request.url.indexOf('?') + 1)
    const outcome = await receiveCallback(signIns.registry, { query, search, userId })
    return answer(request, reply, { ...tellCallback(outcome, query.state), state: query.state })
  })

  app.get<{ Params: { state: string } }>('/auth/status/:state', async (request, reply) => {
    const userId = await requireUser(signIns, request)
    const flow = await signIns.registry.find(request.params.state)
    // Of other users' sign-ins nobody learns that they exist.
    if (!flow || flow.userId !== userId) {
      throw new ServiceError('unknown_oauth_state', { message: `Unknown OAuth state: ${request.params.state}` })
    }
    const { state, status, authUrl, server } = flow
    reply.header('cache-control', 'no-store')
    return { state, status, auth_url: authUrl, server_name: server, user_id: userId }
  })
}

function readQuery(query: unknown): z.output<typeof Query> {
  const parsed = Query.safeParse(query)
  if (parsed.success) return parsed.data
  throw new InvalidBody(
    parsed.error.issues.map(({ path, message }) => {
      const missing = path[0] !== undefined && !Object.hasOwn(query as object, path[0])
      return {
        type: missing ? 'missing' : 'value_error',
        loc: ['query', ...path.map(String)],
        msg: missing ? 'Field required' : message,
        input: null,
      }
    }),
  )
}

const FAILED = 'Something failed on our side. Go back to your conversation and ask again.'

/** JSON for programs, a page with a title and a sentence for people. */
function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  { result, state, title, text }: CallbackAnswer & { readonly state: string },
): FastifyReply {
  const succeeded = 'status' in result
  reply.code(succeeded ? 200 : 400).header('vary', 'accept')
  if (wantsPage(request.headers.accept)) return sendPage(reply, { succeeded, title, text })
  return reply.send(
    succeeded
      ? { status: result.status, state, server_name: result.server }
      : { detail: result.detail, error: result.detail },
  )
}

/** A refusal before the sign-in is looked at, for instance of a browser that has no session. */
function answerError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  if (!wantsPage(request.headers.accept)) {
    renderError(error, request, reply)
    return
  }
  const isOurs = error instanceof ServiceError || error instanceof InvalidBody
  const status = isOurs ? (error instanceof InvalidBody ? 422 : error.status) : (error.statusCode ?? 500)
  if (status >= 500) request.log.error({ err: error }, 'request failed')
  const known = error instanceof ServiceError ? error.message : 'This address is not valid.'
  const text = status >= 500 ? FAILED : known
  sendPage(reply.code(status), { succeeded: false, title: 'Not signed in', text })
}

function sendPage(reply: FastifyReply, page: Parameters<typeof callbackPage>[0]): FastifyReply {
  return reply.headers({ ...PAGE_HEADERS }).send(callbackPage(page))
}
