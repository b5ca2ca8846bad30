import type { FastifyRequest } from 'fastify'
import type { Agency, RunInput } from '@bureau/framework'
import { Refusal, ServiceError } from '@bureau/protocol'
import { userOf } from '../http/users.ts'
import type { SignIns } from './open-sign-ins.ts'

/** What routes may answer that ask `oauthUserId` who sends the request. */
export const USER_CHECK = {
  errors: ['user_not_resolved'],
  otherResponses: {
    '4XX': { description: "What the server's own check of its users refuses.", body: Refusal },
  },
} as const

type Served = { readonly agency: Agency; readonly context: { readonly signIns: SignIns | undefined } }

const MAX_USER_ID_LENGTH = 1_024

/**
 * Who sends the request; null where the server does not know its users, and the agency does not need to.
 *
 * @throws ServiceError `user_not_resolved`, or what the server's `oauthUserId` throws.
 */
export async function runUser(
  { agency, context: { signIns } }: Served,
  request: FastifyRequest,
): Promise<string | null> {
  return signIns?.agencies.has(agency) ? requireUser(signIns, request) : (userOf(request)?.id ?? null)
}

/** @throws ServiceError `user_not_resolved`, or what the server's `oauthUserId` throws. */
export async function requireUser(signIns: SignIns, request: FastifyRequest): Promise<string> {
  const userId: unknown = await signIns.userOf(request)
  const usable = typeof userId === 'string' && userId.trim() !== '' && userId.isWellFormed()
  if (!usable || userId.length > MAX_USER_ID_LENGTH) throw new ServiceError('user_not_resolved')
  return userId
}

/** The run belongs to its user: the tokens are theirs, and no request can claim another `user_id` or `user`. */
export function asUser(request: FastifyRequest, input: RunInput, userId: string | null): RunInput {
  if (userId === null) return input
  const user = userOf(request)
  return { ...input, userId, userContext: { ...input.userContext, user_id: userId, ...(user && { user }) } }
}
