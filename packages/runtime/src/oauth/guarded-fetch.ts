import { isIP } from 'node:net'
import { fetch as undiciFetch } from 'undici'
import type { OAuthAccess, OAuthServerSettings } from '@bureau/framework'
import { createEgressPolicy, type EgressPolicyOptions, isException } from '../egress/address-policy.ts'
import { isPrivateName, peerOf } from '../egress/check-url.ts'
import { EgressError } from '../egress/egress-error.ts'
import { GuardedDispatcher, type GuardedDispatcherOptions } from '../egress/guarded-dispatcher.ts'

type FetchLike = ReturnType<NonNullable<OAuthAccess['fetch']>>

type GuardedFetch = {
  /** The requests to one declared tool server, and to the addresses that it names. */
  readonly fetchFor: (declared: Pick<OAuthServerSettings, 'url' | 'authServerUrl'>) => FetchLike
  readonly close: () => Promise<void>
}

type Network = Pick<GuardedDispatcherOptions, 'ca' | 'resolve'>

/**
 * Requests on behalf of protected tool servers. A tool server names its authorization server itself and must not thereby
 * reach into the operator's network, so each declaration opens exactly what the operator has written in it:
 *
 * - The host **and** port of `url` and `authServerUrl` may be private, provided that the written host is an address or a
 *   name that cannot be public (`localhost`, `notes`, `notes.internal`). A name that looks public must resolve to public
 *   addresses only, because whoever owns its zone could otherwise point it at the operator's network.
 * - Every other address must be https and public.
 * - `egress.allow` lifts all of this for the peers that it names, plain http included. `egress.deny` always wins.
 *
 * Servers do not inherit the exceptions of other servers. Refused requests reject with a `TypeError`, as those of `fetch`
 * do; its cause is an `EgressError`.
 *
 * @throws ConfigError an entry of the egress lists cannot be understood.
 */
export function guardedFetch(egress: EgressPolicyOptions, network: Network = {}): GuardedFetch {
  const operators = createEgressPolicy(egress)
  const opened = new Map<string, GuardedDispatcher>()
  const dispatcherFor = (declared: readonly URL[]): GuardedDispatcher => {
    const allow = [...(egress.allow ?? []), ...declared.flatMap(exceptionFor)]
    const key = declared.map(({ origin }) => origin).join(' ')
    const known =
      opened.get(key) ?? new GuardedDispatcher({ ...network, policy: createEgressPolicy({ ...egress, allow }) })
    opened.set(key, known)
    return known
  }
  return {
    fetchFor: ({ url, authServerUrl = url }) => {
      const declared = [new URL(url), new URL(authServerUrl)]
      const dispatcher = dispatcherFor(declared).compose((dispatch) => (request, handler) => {
        const target = new URL(request.origin!)
        const isPlain = target.protocol !== 'https:' && !declared.some(({ origin }) => origin === target.origin)
        if (isPlain && !isException(operators, peerOf(target))) throw notEncrypted(target)
        return dispatch(request, handler)
      })
      return async (address, init) => {
        const options = { ...(init as object), dispatcher }
        return toGlobal(await undiciFetch(address, options).catch(explain))
      }
    },
    close: async () => void (await Promise.all([...opened.values()].map((dispatcher) => dispatcher.destroy()))),
  }
}

/** The peer of a declared address, when only the operator's network can have it. */
function exceptionFor(declared: URL): string[] {
  const { host, port } = peerOf(declared)
  if (isIP(host) === 6) return [`[${host}]:${port}`]
  return isIP(host) === 4 || isPrivateName(host) ? [`${host}:${port}`] : []
}

function notEncrypted(target: URL): EgressError {
  return new EgressError('unsupported_scheme', 'A tool server may name https addresses only.', {
    detail: target.origin,
  })
}

const REMEDY = 'If it may be called, name it in BUREAU_ALLOWED_HOSTS or egress.allow.'

/** Tells the operator, in the log, which peer was refused and what to do. */
function explain(error: unknown): never {
  const { cause } = error as Error
  if (!(cause instanceof EgressError)) throw error
  throw new TypeError(`${cause.message} ${REMEDY} (${cause.detail ?? 'no address'})`, { cause })
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
