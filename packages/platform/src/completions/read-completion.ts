import { type GetCompletionV2Request, ServiceError } from '@bureau/protocol'
import type { Caller } from '../caller.ts'
import { checkAttachments, checkRefreshes } from '../attachments/check-attachments.ts'
import type { Platform } from '../context.ts'
import { readIntegration } from '../integrations/describe-integrations.ts'
import { parseDataObject } from '../http/strict-json.ts'
import { checkSandboxFiles } from '../mount/sandbox-files.ts'
import type { CompletionRequest } from '../runs/admit/completion-request.ts'

/** A request that was checked as far as that needs nothing but the request. */
export type ReadCompletion = {
  readonly completion: CompletionRequest
  /** Sandbox files that are not in the mount. */
  readonly missingSandboxFiles: readonly string[]
  /** Images that the run will look for in the blob store. */
  readonly inline: readonly Uint8Array[]
}

/**
 * Checks what a schema cannot say.
 *
 * @throws ServiceError `invalid_attachment`, `attachment_too_large`, `invalid_attachment_refresh`, `invalid_sandbox_file`
 */
export async function readCompletion(
  platform: Platform,
  caller: Caller,
  body: GetCompletionV2Request,
): Promise<ReadCompletion> {
  const { attachmentAccess } = platform
  const attachments = checkAttachments(body.attachments ?? [], attachmentAccess)
  const sandboxFiles = body.sandboxFiles ?? []
  checkSandboxFiles(sandboxFiles)
  checkRefreshes(body.attachmentUrlRefreshes ?? {}, attachmentAccess)
  const completion: CompletionRequest = {
    apiIntegrationId: body.apiIntegrationId,
    message: body.message,
    agent: body.agent ?? null,
    chatId: body.chatId ?? null,
    aliasChatId: body.aliasChatId ?? null,
    attachments: attachments.map(({ attachment }) => attachment),
    sandboxFiles,
    userContext: readUserContext(body.user_context),
    consumerId: body.consumerId ?? null,
    usageRequestId: body.usageRequestId ?? null,
    attachmentUrlRefreshes: body.attachmentUrlRefreshes ?? {},
  }
  const inline = attachments.flatMap((each) => each.inline ?? [])
  return { completion, missingSandboxFiles: await findMissing(platform, caller, completion), inline }
}

/** Of an integration that is not the caller's nothing is looked for: the admission refuses it. */
async function findMissing(
  platform: Platform,
  caller: Caller,
  { apiIntegrationId: integrationId, sandboxFiles }: CompletionRequest,
): Promise<readonly string[]> {
  if (sandboxFiles.length === 0) return []
  try {
    await readIntegration(platform, caller, integrationId)
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'integration_not_found') return []
    throw error
  }
  const mount = await platform.mounts.of({ ownerId: caller.ownerId, integrationId })
  return mount.missing(sandboxFiles)
}

/** Text that is a JSON object counts as that object, any other text as `{ value: text }`. */
function readUserContext(context: GetCompletionV2Request['user_context']): CompletionRequest['userContext'] {
  if (context == null) return null
  if (typeof context !== 'string') return context
  return parseDataObject(context) ?? { value: context }
}
