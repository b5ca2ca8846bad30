import type { Draft, Fields } from './wire-items.remainder.ts'
import { isFields } from './wire-items.remainder.ts'
import type { Kind } from './wire-items.to-sdk.ts'

/**
 * Calls that the provider carries out itself. The SDK keeps such an item whole in `providerData`, but its request
 * builder refuses a status that it does not know, and fills in what is missing.
 */
export const HOSTED_KINDS: readonly (readonly [string, Kind])[] = [
  [
    'web_search_call',
    hosted((item) => hasStatus(item, 'in_progress', 'completed', 'searching', 'failed') && hasAction(item)),
  ],
  [
    'file_search_call',
    hosted(
      (item) =>
        hasStatus(item, 'in_progress', 'completed', 'searching', 'failed', 'incomplete') &&
        Array.isArray(item['queries']),
    ),
  ],
  [
    'code_interpreter_call',
    hosted(
      (item) =>
        hasStatus(item, 'in_progress', 'completed', 'interpreting') &&
        typeof item['code'] === 'string' &&
        Array.isArray(item['outputs']),
    ),
  ],
  ['image_generation_call', hosted((item) => hasStatus(item, 'in_progress', 'completed', 'generating', 'failed'))],
  ['mcp_list_tools', hosted()],
  ['mcp_approval_request', hosted()],
  ['mcp_approval_response', hosted()],
  ['mcp_call', hosted()],
]

function hosted(isSendable: (item: Fields) => boolean = () => true): Kind {
  return { draft: hostedDraft, loses: () => false, misreads: (item) => !isSendable(item) }
}

function hostedDraft(item: Fields): Draft {
  const { type, id } = item
  const status = item['status'] ?? (ENDED_WHEN_SENT.includes(type) ? 'completed' : undefined)
  const output = type === 'image_generation_call' ? item['result'] : item['output']
  return {
    type: 'hosted_tool_call',
    name: type,
    ...(typeof id === 'string' && { id }),
    ...(typeof status === 'string' && { status }),
    ...(typeof output === 'string' && { output }),
    providerData: item,
  }
}

/** These come without a status, or with one that is only informative; the SDK calls them completed. */
const ENDED_WHEN_SENT: readonly unknown[] = ['mcp_list_tools', 'mcp_approval_request', 'mcp_call']

function hasStatus({ status }: Fields, ...known: readonly string[]): boolean {
  return typeof status === 'string' && known.includes(status)
}

function hasAction({ action }: Fields): boolean {
  return action === undefined || (isFields(action) && typeof action['type'] === 'string')
}
