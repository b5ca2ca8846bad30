import { BureauError } from './error.ts'

/** One request of the client. `path` follows the server's address; a `body` of text is JSON. */
export type Call = {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE' | 'HEAD'
  readonly path: string
  readonly body?: string | Blob
  readonly headers?: HeadersLike
}

export type Connection = {
  /** Where the server is, without a slash at the end. */
  readonly url: string
  /**
   * Goes out as a bearer token. A function is asked with every attempt; and once more when the server refuses a token with
   * 401, which is then `refused`: a token that was kept has to be renewed.
   */
  readonly token?: string | ((refused?: string) => string | Promise<string>) | undefined
  /** Sent with every request; asked for again with every attempt. */
  readonly headers?: HeadersLike | (() => HeadersLike | Promise<HeadersLike>) | undefined
  readonly fetch?: typeof fetch | undefined
}

/** Of a page, an address may be relative. @throws TypeError it is none. */
export const addressOf = (url: string | URL): URL =>
  new URL(url, (globalThis as { location?: { readonly href: string } }).location?.href)

type HeadersLike = Readonly<Record<string, string>>

/**
 * Sends a request once, or again with another token when one was `refused`.
 *
 * @throws BureauError `connection_lost`, also when `token` or `headers` fail or are late, or the refusal.
 */
export async function send(
  connection: Connection,
  call: Call,
  signal?: AbortSignal,
  refused?: string,
): Promise<Response> {
  const { url, token, headers, fetch: fetchIt = fetch } = connection
  const late = new Promise<never>((_, reject) =>
    signal?.addEventListener('abort', () => reject(new Error('token or headers did not answer.'))),
  )
  const bearer = await given(token, late, refused)
  const request: RequestInit = {
    method: call.method,
    headers: {
      ...(typeof call.body === 'string' && { 'content-type': 'application/json' }),
      ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
      ...(await given(headers, late)),
      ...call.headers,
    },
    body: call.body ?? null,
    signal: signal ?? null,
  }
  const response = await fetchIt(url + call.path, request).catch((cause) => {
    throw connectionLost(cause, `${addressOf(url).host} cannot be reached.`)
  })
  if (response.ok) return response
  const text = await response.text().catch(lost)
  const isStale = response.status === 401 && typeof token === 'function' && refused === undefined
  if (isStale) return send(connection, call, signal, bearer ?? '')
  throw refusal(call, response, text)
}

/** An option, or what the function in its place gives, which often asks a server for it, over the same network. */
async function given<Value extends string | HeadersLike | undefined>(
  option: Value | ((refused?: string) => Value | Promise<Value>),
  late: Promise<never>,
  refused?: string,
): Promise<Value> {
  try {
    return await Promise.race([typeof option === 'function' ? option(refused) : option, late])
  } catch (cause) {
    throw connectionLost(cause, (cause as Error | undefined)?.message)
  }
}

export function connectionLost(cause?: unknown, message = 'The connection was lost.'): BureauError {
  return new BureauError('connection_lost', message, { cause, retryable: true })
}

/** An answer that breaks off. @throws BureauError */
export function lost(cause: unknown): never {
  throw connectionLost(cause)
}

/** Something else answers at the address, with success. */
export function notWanted({ status }: Response, wanted: string, cause?: unknown): BureauError {
  return new BureauError('not_a_stream', `The server did not answer with ${wanted}.`, { status, cause })
}

/** Codes for refusals that name none: those of the self-hosted server, and of proxies. */
const BY_STATUS: Readonly<Record<number, string>> = {
  401: 'unauthorized',
  404: 'not_found',
  422: 'invalid_request',
  429: 'rate_limited',
  503: 'overloaded',
}

/** What begins a run of the platform, under an id of the request. */
export const COMPLETION = '/get_completion_v2'

function refusal({ path }: Call, { status, headers }: Response, text: string): BureauError {
  const body = parsed(text)
  const { error, code } = (body ?? {}) as Record<string, unknown>
  // A run may have begun, unless the platform says otherwise; the same request then gets that one.
  const mayHaveBegun = path === COMPLETION && status === 500 && headers.get('x-agent-run-admitted') !== 'false'
  const known = codeOf(status, code, text)
  return new BureauError(known, typeof error === 'string' ? error : `The server answered with ${status}.`, {
    status,
    body,
    run: headers.get('x-agent-run-id') ?? headers.get('x-agent-active-run-id') ?? undefined,
    // With all but 507 of these, a proxy says that it does not reach its server: Cloudflare's begin with 520.
    retryable: mayHaveBegun || known === 'rate_limited' || (status > 501 && status !== 507),
    retryAfterMs: Number(headers.get('retry-after')) * 1_000 || undefined,
  })
}

/** What the platform says of a request, a self-hosted server says of one of its decisions. */
function codeOf(status: number, code: unknown, text: string): string {
  if (status === 422 && text.includes('"type":"approval_used"')) return 'approval_decided'
  return typeof code === 'string' ? code : (BY_STATUS[status] ?? 'refused')
}

/** Of JSON what it says; all else as it is. */
export function parsed(text: unknown): unknown {
  if (typeof text !== 'string') return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
