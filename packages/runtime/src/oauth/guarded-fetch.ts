import { fetch as undiciFetch } from 'undici'
import type { MCPServerOAuth } from '@bureau/framework'
import { createEgressPolicy, type EgressPolicyOptions } from '../egress/address-policy.ts'
import { GuardedDispatcher } from '../egress/guarded-dispatcher.ts'

export type GuardedFetch = {
  readonly fetch: (url: string | URL, init?: RequestInit) => Promise<Response>
  readonly close: () => Promise<void>
}

/**
 * Requests to the hosts of declared tool servers, and to public addresses: a tool server names its authorization server
 * itself and must not thereby reach into the operator's network. `egress` holds the operator's exceptions.
 */
export function guardedFetch(servers: readonly MCPServerOAuth[], egress: EgressPolicyOptions): GuardedFetch {
  const declared = servers.flatMap(({ url, options }) => [url, options.authServerUrl ?? url])
  const hosts = declared.map((url) => new URL(url).hostname)
  const dispatcher = new GuardedDispatcher({
    policy: createEgressPolicy({ ...egress, allow: [...(egress.allow ?? []), ...hosts] }),
  })
  return {
    fetch: async (url, init) => toGlobal(await undiciFetch(url, { ...(init as object), dispatcher })),
    close: () => dispatcher.destroy(),
  }
}

/** The MCP client tells responses from texts by the class that Node has for them. */
function toGlobal(response: Awaited<ReturnType<typeof undiciFetch>>): Response {
  const { status, statusText, headers } = response
  const empty = status === 204 || status === 205 || status === 304
  return new Response(empty ? null : (response.body as ReadableStream | null), {
    status,
    statusText,
    headers: [...headers],
  })
}
