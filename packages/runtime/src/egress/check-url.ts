import { isIP } from 'node:net'
import { allowsAddress, isException, type EgressPeer, type EgressPolicy } from './address-policy.ts'
import { EgressError } from './egress-error.ts'

export type UrlRules = {
  readonly policy: EgressPolicy
  readonly schemes: readonly ('http' | 'https')[]
  /** The ports that may be used. Absent: every port. Exceptions of the operator are exempt. */
  readonly ports?: readonly number[]
}

const MAX_URL_LENGTH = 8 * 1024

// Names that never belong to a public host: RFC 6761, 6762, 8375, the reserved top-level `internal`, and Kubernetes.
const PRIVATE_SUFFIXES = ['.localhost', '.local', '.internal', '.home.arpa', '.svc']

/**
 * Parses a caller's URL once and checks everything that needs no network.
 *
 * Use the returned URL, never the text: it is normalised, its fragment and the dot that may end the host are gone.
 *
 * @throws EgressError `invalid_url`, `unsupported_scheme` or `blocked`.
 */
export function checkUrl(text: string, rules: UrlRules): URL {
  if (text.length > MAX_URL_LENGTH) throw new EgressError('invalid_url', 'The URL is too long.')
  const url = URL.parse(text)
  if (!url) throw new EgressError('invalid_url', 'The URL is not valid.')
  requireScheme(url, rules.schemes)
  if (url.username !== '' || url.password !== '') {
    throw new EgressError('blocked', 'A URL must not contain credentials.')
  }
  url.hash = ''
  if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1)
  requirePeer(peerOf(url), rules)
  return url
}

/** Whom a connection for an http or https URL goes to. */
export function peerOf(url: URL): EgressPeer {
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  return { host: host.toLowerCase(), port }
}

function requireScheme(url: URL, schemes: UrlRules['schemes']): void {
  const scheme = url.protocol.slice(0, -1)
  if (!schemes.some((allowed) => allowed === scheme)) {
    throw new EgressError('unsupported_scheme', `Unsupported URL scheme: ${scheme}`)
  }
}

function requirePeer(peer: EgressPeer, { policy, ports }: UrlRules): void {
  if (isIP(peer.host) !== 0 && !allowsAddress(policy, peer, peer.host)) {
    throw new EgressError('blocked', 'The address of the URL is not allowed.')
  }
  if (isException(policy, peer)) return
  if (isIP(peer.host) === 0 && isPrivateName(peer.host)) {
    throw new EgressError('blocked', 'The host of the URL is not allowed.')
  }
  if (ports && !ports.includes(peer.port)) throw new EgressError('blocked', 'The port of the URL is not allowed.')
}

/** Whether a name (lower case, without the final dot) can only belong to a host of some private network. */
export function isPrivateName(host: string): boolean {
  return !host.includes('.') || PRIVATE_SUFFIXES.some((suffix) => host.endsWith(suffix))
}
