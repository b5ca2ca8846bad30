import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import { ConfigError } from '@bureau/protocol'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Cidr = [Address, number]

/** A peer that the operator allows although it is not public. A missing port means every port. */
type Exception = { readonly host: string; readonly port?: number } | { readonly cidr: Cidr; readonly port?: number }

/** Which peers may be connected to on behalf of a caller. Made by {@link createEgressPolicy}. */
export type EgressPolicy = { readonly allow: readonly Exception[]; readonly deny: readonly Cidr[] }

export type EgressPolicyOptions = {
  /**
   * Peers to allow besides public addresses: `10.1.0.0/16`, `127.0.0.1:11434`, `[::1]:8080`, `models.internal`,
   * `localhost:11434`, `*.corp.example`. A name stands for whatever it resolves to.
   */
  readonly allow?: readonly string[]
  /** Addresses and CIDR blocks that are never connected to, whatever else holds, e.g. public addresses of one's own. */
  readonly deny?: readonly string[]
}

export type EgressPeer = {
  /** Lower case, without brackets and trailing dot. */
  readonly host: string
  readonly port: number
}

// IANA special-purpose registries (RFC 6890 and updates). 192.88.99.0/24 is the withdrawn 6to4 relay block.
const NOT_PUBLIC_V4 = cidrs(
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24',
  '192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4',
)
// Only global unicast counts, so that mapped, compatible, NAT64, unique-local, link-local and multicast addresses
// are out without being listed. Inside it: protocol assignments with Teredo, documentation, 6to4, documentation.
const PUBLIC_V6 = cidrs('2000::/3')
const NOT_PUBLIC_V6 = cidrs('2001::/23 2001:db8::/32 2002::/16 3fff::/20')

/** Whether an address (canonical text form, no zone) can only belong to a host on the public internet. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0 || address.includes('%')) return false
  const ip = ipaddr.parse(address)
  if (ip.kind() === 'ipv4') return !NOT_PUBLIC_V4.some((cidr) => contains(cidr, ip))
  return PUBLIC_V6.some((cidr) => contains(cidr, ip)) && !NOT_PUBLIC_V6.some((cidr) => contains(cidr, ip))
}

/**
 * Reads the operator's exceptions.
 *
 * @throws ConfigError listing every entry that cannot be understood.
 */
export function createEgressPolicy(options: EgressPolicyOptions = {}): EgressPolicy {
  const problems: string[] = []
  const read = <T>(list: string, entries: readonly string[] = [], parse: (entry: string) => T | undefined): T[] =>
    entries.flatMap((entry) => {
      const parsed = parse(entry.trim())
      if (parsed === undefined) problems.push(`${list}: cannot understand "${entry}"`)
      return parsed === undefined ? [] : [parsed]
    })
  const allow = read('allowed egress', options.allow, parseException)
  const deny = read('denied egress', options.deny, parseCidr)
  if (problems.length > 0) throw new ConfigError(problems.join('\n'))
  return Object.freeze({ allow, deny })
}

/** Whether a connection to `address`, which `peer.host` is or resolved to, may be opened. A denial always wins. */
export function allowsAddress(policy: EgressPolicy, peer: EgressPeer, address: string): boolean {
  if (isIP(address) === 0) return false
  const ip = ipaddr.process(address)
  if (policy.deny.some((cidr) => contains(cidr, ip))) return false
  return isPublicAddress(address) || policy.allow.some((exception) => covers(exception, peer, ip))
}

/** Whether an exception can be read: a host, `*.` and a host, an address or a network, with or without a port. */
export const isEgressException = (entry: string): boolean => parseException(entry) !== undefined

/** Whether the operator named this host and port, so that rules on names and ports do not apply to it. */
export function isException(policy: EgressPolicy, peer: EgressPeer): boolean {
  const ip = isIP(peer.host) === 0 ? undefined : ipaddr.process(peer.host)
  return policy.allow.some((exception) => covers(exception, peer, ip))
}

function covers(exception: Exception, peer: EgressPeer, ip: Address | undefined): boolean {
  if (exception.port !== undefined && exception.port !== peer.port) return false
  if ('cidr' in exception) return ip !== undefined && contains(exception.cidr, ip)
  return exception.host.startsWith('*.') ? peer.host.endsWith(exception.host.slice(1)) : peer.host === exception.host
}

function contains(cidr: Cidr, ip: Address): boolean {
  return cidr[0].kind() === ip.kind() && ip.match(cidr)
}

function parseException(entry: string): Exception | undefined {
  const cidr = parseCidr(entry)
  if (cidr) return { cidr }
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(entry) ?? []
  const port = digits === undefined ? undefined : Number(digits)
  if (port !== undefined && (port < 1 || port > 65_535)) return undefined
  const withPort = port === undefined ? {} : { port }
  const literal = parseCidr(bracketed ?? plain ?? '')
  if (literal) return { cidr: literal, ...withPort }
  const host = plain === undefined ? undefined : parseHostPattern(plain)
  return host === undefined ? undefined : { host, ...withPort }
}

function parseHostPattern(text: string): string | undefined {
  const wildcard = text.startsWith('*.') ? '*.' : ''
  const name = domainToASCII(text.slice(wildcard.length)).replace(/\.$/, '')
  return /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/.test(name) && isIP(name) === 0 ? wildcard + name : undefined
}

/** Whether this is a network like `10.0.0.0/8`, or an address. */
export const isCidr = (entry: string): boolean => parseCidr(entry) !== undefined

/** An address counts as the block of itself. Short and octal spellings are not understood. */
function parseCidr(entry: string): Cidr | undefined {
  const [address = '', bits, ...rest] = entry.split('/')
  const family = isIP(address)
  if (family === 0 || address.includes('%') || rest.length > 0) return undefined
  const longest = family === 4 ? 32 : 128
  if (bits === undefined) return [ipaddr.parse(address), longest]
  return /^\d{1,3}$/.test(bits) && Number(bits) <= longest ? [ipaddr.parse(address), Number(bits)] : undefined
}

function cidrs(...lists: string[]): Cidr[] {
  return lists.flatMap((list) => list.split(' ')).map((text) => ipaddr.parseCIDR(text))
}
