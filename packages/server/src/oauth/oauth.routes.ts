import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ServiceError } from '@bureau/protocol'
import { type CallbackOutcome, receiveCallback } from '@bureau/runtime'
import { z } from 'zod'
import { InvalidBody } from '../http/invalid-body.ts'
import { renderError } from '../http/render-error.ts'
import { callbackPage, PAGE_HEADERS } from './callback-page.ts'
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
    return answer(request, reply, tell(await receiveCallback(signIns.registry, { query, search, userId }), query))
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

/** What is answered: JSON for programs, a page with a title and a sentence for people. */
type Told = {
  readonly status: 200 | 400
  readonly body: Readonly<Record<string, string>>
  readonly title: string
  readonly text: string
}

const BACK = 'You can close this window and go back to your conversation.'
const FAILED = 'Something failed on our side. Go back to your conversation and ask again.'
const AGAIN = 'Go back to your conversation and ask again.'

function tell(outcome: CallbackOutcome, { state }: { state: string }): Told {
  switch (outcome.kind) {
    case 'ended':
      return tellEnd(outcome.flow.status, outcome.flow.server, state)
    case 'pending':
      return {
        status: 200,
        body: { status: 'pending', state, server_name: outcome.flow.server },
        title: 'Almost there',
        text: `The sign-in to ${outcome.flow.server} is being completed. ${BACK}`,
      }
    case 'no_code':
      return refusal('OAuth callback missing authorization code', `The provider sent no code. ${AGAIN}`)
    case 'unknown':
      return refusal(`Unknown OAuth state: ${state}`, `This sign-in is not known, or too old. ${AGAIN}`)
    case 'settled':
      return refusal(
        `OAuth flow for state ${state} is not pending (status: ${settledStatus(outcome.flow.status)})`,
        `This sign-in was already answered. ${BACK}`,
      )
    case 'user_mismatch':
      return refusal('OAuth callback failed: user_mismatch', 'This sign-in was begun by another user.')
    case 'abandoned':
      return tellAbandoned(state)
  }
}

/** A flow whose code is being exchanged takes no other answer either. */
function settledStatus(status: string): string {
  return status === 'pending' ? 'answered' : status
}

function tellEnd(status: string, server: string, state: string): Told {
  if (status === 'authorized') {
    const body = { status: 'ok', state, server_name: server }
    return { status: 200, body, title: 'Signed in', text: `You are signed in to ${server}. ${BACK}` }
  }
  if (status === 'error:abandoned') return tellAbandoned(state)
  const reason = status.replace(/^error:/, '')
  return refusal(`OAuth error: ${reason}`, `The sign-in to ${server} did not work: ${reason}. ${AGAIN}`)
}

function tellAbandoned(state: string): Told {
  const text = `The conversation that asked for this sign-in has ended. ${AGAIN}`
  return refusal(`OAuth flow for state ${state} is not awaited any more`, text)
}

function refusal(detail: string, text: string): Told {
  return { status: 400, body: { detail, error: detail }, title: 'Not signed in', text }
}

function answer(request: FastifyRequest, reply: FastifyReply, told: Told): FastifyReply {
  reply.code(told.status).header('vary', 'accept')
  if (!wantsPage(request)) return reply.send(told.body)
  return reply.headers({ ...PAGE_HEADERS }).send(callbackPage({ ...told, succeeded: told.status === 200 }))
}

/** A refusal before the sign-in is looked at, for instance of a browser that has no session. */
function answerError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  if (!wantsPage(request)) {
    renderError(error, request, reply)
    return
  }
  const isOurs = error instanceof ServiceError || error instanceof InvalidBody
  const status = isOurs ? (error instanceof InvalidBody ? 422 : error.status) : (error.statusCode ?? 500)
  if (status >= 500) request.log.error({ err: error }, 'request failed')
  const known = error instanceof ServiceError ? error.message : 'This address is not valid.'
  const page = callbackPage({ succeeded: false, title: 'Not signed in', text: status >= 500 ? FAILED : known })
  reply
    .code(status)
    .headers({ ...PAGE_HEADERS })
    .send(page)
}

/** Browsers ask for HTML by name; programs ask for JSON or take anything. */
function wantsPage(request: FastifyRequest): boolean {
  return /\btext\/html\b/i.test(request.headers.accept ?? '')
}
