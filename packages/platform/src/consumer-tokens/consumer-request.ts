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

/**
 * The same for other protocols, whose threads are the consumer's own anyway.
 *
 * @param words - What of a request comes from an owner's back end only, by its name there. `consumer_id` and `user` may be the
 *   consumer itself.
 * @throws ServiceError `insufficient_scope`
 */
export function requireOfConsumer(words: Readonly<Record<string, unknown>>, { consumerId }: Caller): void {
  if (consumerId === undefined) return
  for (const [name, value] of Object.entries(words)) {
    const isName = name === 'consumer_id' || name === 'user'
    if (value == null || (isName && value === consumerId)) continue
    throw refused(isName ? `another ${name}` : name)
  }
}

function refused(what: string): ServiceError {
  return new ServiceError('insufficient_scope', { message: `A consumer token may not send ${what}.` })
}
