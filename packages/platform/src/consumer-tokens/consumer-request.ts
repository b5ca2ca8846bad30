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

/** What of an AG-UI request comes from an owner's back end only. */
type OwnersWords = {
  readonly consumer_id?: string | undefined
  readonly user_context?: unknown
  readonly additional_instructions?: unknown
}

/** The same for AG-UI, whose threads are the consumer's own anyway. @throws ServiceError `insufficient_scope` */
export function requireOfConsumer(body: OwnersWords, { consumerId }: Caller): void {
  if (consumerId === undefined) return
  if (body.consumer_id != null && body.consumer_id !== consumerId) throw refused('another consumer_id')
  if (body.user_context != null) throw refused('user_context')
  if (body.additional_instructions != null) throw refused('additional_instructions')
}

function refused(what: string): ServiceError {
  return new ServiceError('insufficient_scope', { message: `A consumer token may not send ${what}.` })
}
