import { lookup as lookupAddresses } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import { callbackify } from 'node:util'
import { Agent, buildConnector, Pool } from 'undici'
import { allowsAddress, type EgressPeer, type EgressPolicy } from './address-policy.ts'
import { peerOf } from './check-url.ts'
import { EgressError } from './egress-error.ts'

export type ResolvedAddress = { readonly address: string; readonly family: number }

export type GuardedDispatcherOptions = {
  readonly policy: EgressPolicy
  /** Longest time to resolve the name, connect and agree on TLS. Default 5,000. */
  readonly connectTimeoutMs?: number
  /** Longest wait for the head of a response. Default 300,000; 0 means no limit. */
  readonly headersTimeoutMs?: number
  /** Longest silence within a response body. Default 300,000; 0 means no limit. */
  readonly bodyTimeoutMs?: number
  /** All addresses of a host name. Default: the system's resolver. */
  readonly resolve?: (host: string) => Promise<readonly ResolvedAddress[]>
  /** Certificate authorities in PEM form to trust instead of the default ones. */
  readonly ca?: string
}

/**
 * Sends requests only to peers that its policy allows, whatever URL it is given.
 *
 * A name is resolved once per connection; one forbidden address among the answers refuses all of them, and the
 * connection goes to an address that was checked, so a second answer of the name server changes nothing. IP literals
 * (which are never looked up) and the address of the open socket are checked too. Refusals reject with an
 * `EgressError` `blocked`. Bodies are not limited and redirects not followed: see `safeFetch` for downloads.
 */
export class GuardedDispatcher extends Agent {
  readonly policy: EgressPolicy

  constructor(options: GuardedDispatcherOptions) {
    const limits = {
      headersTimeout: options.headersTimeoutMs ?? 300_000,
      bodyTimeout: options.bodyTimeoutMs ?? 300_000,
    }
    super({
      // One pool per origin, so that a connector knows whom it connects to.
      factory: (origin) => new Pool(origin, { ...limits, connect: guardedConnector(peerOf(new URL(origin)), options) }),
    })
    this.policy = options.policy
  }
}

function guardedConnector(peer: EgressPeer, options: GuardedDispatcherOptions): buildConnector.connector {
  const { policy } = options
  const connect = buildConnector({
    lookup: guardedLookup(peer, options),
    timeout: options.connectTimeoutMs ?? 5_000,
    allowH2: false,
    ...(options.ca !== undefined && { ca: options.ca }),
  })
  return (target, callback) => {
    if (isIP(peer.host) !== 0 && !allowsAddress(policy, peer, peer.host)) {
      return callback(blocked(peer, peer.host), null)
    }
    connect(target, (...[error, socket]) => {
      if (error) return callback(error, null)
      const address = socket.remoteAddress ?? ''
      if (allowsAddress(policy, peer, address)) return callback(null, socket)
      socket.destroy()
      callback(blocked(peer, address), null)
    })
  }
}

function guardedLookup(peer: EgressPeer, options: GuardedDispatcherOptions): LookupFunction {
  const resolve = options.resolve ?? ((host) => lookupAddresses(host, { all: true }))
  const resolveChecked = async (): Promise<ResolvedAddress[]> => {
    const addresses = [...(await resolve(peer.host))]
    const forbidden = addresses.find(({ address }) => !allowsAddress(options.policy, peer, address))
    if (forbidden) throw blocked(peer, forbidden.address)
    if (addresses.length === 0) throw new EgressError('failed', 'The host of the URL has no address.')
    return addresses
  }
  const resolveWithCallback = callbackify(resolveChecked)
  return (_host, { all }, callback) => {
    resolveWithCallback((error, addresses) => {
      const first = addresses?.[0]
      if (error || !first) callback(error, '')
      else if (all) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }
}

function blocked(peer: EgressPeer, address: string): EgressError {
  return new EgressError('blocked', 'The address of the URL is not allowed.', {
    detail: `${peer.host}:${peer.port} is ${address}`,
  })
}
