import { type GetCompletionV2Request, ServiceError } from '@bureau/protocol'
import type { Caller } from '../caller.ts'

/**
 * A completion as the page of a consumer may ask for it: in the consumer's name, and without what tools take for the word of
 * the owner's back end. Requests with an API key stay as they are.
 *
 * @throws ServiceError `insufficient_scope`
 */
export function asConsumer(body: GetCompletionV2Request, caller: Caller): GetCompletionV2Request {
  const { consumerId, consumerScopes = [] } = caller
  if (consumerId === undefined) return body
  if (body.consumerId != null && body.consumerId !== consumerId) throw refused('another consumerId')
  if (body.user_context != null) throw refused('user_context')
  if (body.aliasChatId != null) throw refused('aliasChatId')
  if (body.sandboxFiles?.length && !consumerScopes.includes('upload'))
    throw refused('sandboxFiles without the scope upload')
  return { ...body, consumerId }
}

function refused(what: string): ServiceError {
  return new ServiceError('insufficient_scope', { message: `A consumer token may not send ${what}.` })
}
