import type { RunInput } from '@bureau/framework'
import type { WireItem } from '@bureau/protocol'
import type { NewAttachment } from '../../chats/attachments.repo.ts'
import { attachmentUrlKey } from '../../chats/attachment-url.ts'
import { fingerprint } from '../../security/fingerprint.ts'

/** What protocols bring whose requests hold more than a message. */
export type GivenInput = Pick<RunInput, 'additionalInstructions' | 'callerOptions' | 'sharedState'> & {
  /** What the run answers. `message` of the request is what the chat keeps of it. */
  readonly message: readonly WireItem[]
  /** The conversation before. Null: that of the chat. */
  readonly history: RunInput['history'] | null
}

/** A completion request whose form was checked. Names are those of the API. */
export type CompletionRequest = {
  readonly apiIntegrationId: string
  readonly message: string
  readonly agent: string | null
  readonly chatId: string | null
  readonly aliasChatId: string | null
  readonly attachments: readonly NewAttachment[]
  readonly sandboxFiles: readonly { readonly name: string; readonly path: string }[]
  /** A string was already made `{ value: string }`. */
  readonly userContext: Readonly<Record<string, unknown>> | null
  readonly consumerId: string | null
  readonly usageRequestId: string | null
  readonly attachmentUrlRefreshes: Readonly<Record<string, string>>
  readonly given?: GivenInput
}

/**
 * What makes two requests the same for a retry with one usageRequestId.
 *
 * The queries of URLs and the refreshes are left out: a client that retries often signs its URLs anew.
 */
export function completionFingerprint(serverKey: Uint8Array, request: CompletionRequest): Uint8Array {
  const { attachmentUrlRefreshes: _, attachments, ...rest } = request
  const named = attachments.map(({ source, ...attachment }) => ({
    ...attachment,
    source: 'url' in source ? attachmentUrlKey(new URL(source.url)) : Buffer.from(source.sha256).toString('hex'),
  }))
  return fingerprint(serverKey, { ...rest, attachments: named })
}
