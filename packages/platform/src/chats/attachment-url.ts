import { createHmac } from 'node:crypto'

/** An HTTPS address without user information, parsed once; undefined for everything else. */
export function parseAttachmentUrl(text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '') return undefined
  url.hash = ''
  return url
}

/** Which file an address names: host and path, whatever the query that signs it. Percent triplets are not decoded. */
export function attachmentUrlKey(url: URL): string {
  return `https://${url.host}${url.pathname.replace(/%[0-9a-f]{2}/gi, (triplet) => triplet.toUpperCase())}`
}

/** When a signed address stops working, in milliseconds since the epoch; undefined when the address does not say. */
export function attachmentUrlExpiry(url: URL): number | undefined {
  const query = new Map([...url.searchParams].map(([name, value]) => [name.toLowerCase(), value]))
  const has = (name: string): boolean => query.has(name)
  for (const vendor of ['amz', 'goog']) {
    const start = query.get(`x-${vendor}-date`)
    const seconds = query.get(`x-${vendor}-expires`)
    if (start !== undefined && seconds !== undefined) return sum(compactTime(start), Number(seconds))
  }
  if (has('expires') && (has('signature') || has('key-pair-id') || has('awsaccesskeyid'))) {
    return sum(0, Number(query.get('expires')))
  }
  if (has('se') && has('sig')) return sum(Date.parse(query.get('se') ?? ''), 0)
  return undefined
}

/** Milliseconds; undefined unless both are numbers. */
function sum(milliseconds: number, seconds: number): number | undefined {
  const at = milliseconds + seconds * 1000
  return Number.isSafeInteger(at) ? at : undefined
}

/** `20261120T221011Z` */
function compactTime(text: string): number {
  const [, year, month, day, hour, minute, second] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(text) ?? []
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
}

const SIGNATURE =
  /^(x-(amz|goog)-.*|signature|key-pair-id|policy|awsaccesskeyid|googleaccessid|expires|expiry|exp|token|sig|se|st)$/
/** Only in the company of `sig` are these part of a signature. */
const AZURE = /^(s[vsrpi]|srt|spr|sip|sk(oid|tid|t|e|s|v)|s[ad]oid|suoid|scid|sdd|ses)$/

/**
 * Tells apart files that share host and path but differ in the rest of the query. Signatures do not count.
 *
 * Keyed, because a query may hold a secret.
 */
export function attachmentParamsHash(key: Uint8Array, url: URL): Uint8Array {
  const signed = url.searchParams.has('sig')
  const isSignature = (name: string): boolean => SIGNATURE.test(name) || (signed && AZURE.test(name))
  const rest = [...url.searchParams].filter(([name]) => !isSignature(name.toLowerCase()))
  const text = JSON.stringify(rest.map((pair) => pair.join('=')).toSorted())
  return new Uint8Array(createHmac('sha256', key).update(text).digest())
}
