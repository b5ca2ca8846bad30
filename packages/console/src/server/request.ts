import { type ComponentType, lazy } from 'react'
import { addressOf } from './address.ts'
import { credentials, type Door, refuse } from './credentials.ts'
import { watchedFetch, whenReached } from './reachability.ts'

type FieldProblem = { readonly path: string; readonly error: string }

/** An answer that is no success, or none at all (`status` 0). */
export class RequestFailed extends Error {
  override readonly name = 'RequestFailed'
  readonly status: number
  readonly code: string | undefined
  readonly fields: readonly FieldProblem[]

  constructor(message: string, facts: { status: number; code?: string | undefined; fields?: readonly FieldProblem[] }) {
    super(message)
    this.status = facts.status
    this.code = facts.code
    this.fields = facts.fields ?? []
  }
}

type Asked = {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Sent as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/**
 * Asks a public route for JSON, with what somebody has signed in with at that door.
 *
 * @throws RequestFailed
 */
export async function ask<Answer>(door: Door, path: string, asked: Asked = {}): Promise<Answer> {
  const response = await send(door, path, asked)
  return (response.status === 204 ? undefined : await response.json()) as Answer
}

/** The same for any content. @throws RequestFailed */
export async function send(
  door: Door,
  path: string,
  { method = 'GET', body, headers, signal }: Asked = {},
): Promise<Response> {
  const secret = credentials.value[door]
  const sent = request(path, {
    method,
    headers: {
      ...(secret !== undefined && { authorization: `Bearer ${secret}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
  })
  return sent.catch((error: unknown) => {
    if (isRefusal(error, 401) && secret !== undefined && secret === credentials.value[door]) refuse(door)
    throw error
  })
}

/** A request that needs no sign-in. @throws RequestFailed */
export async function request(path: string, init: RequestInit): Promise<Response> {
  const response = await watchedFetch(addressOf(path), init).catch((error: unknown) => {
    if (init.signal?.aborted) throw error
    throw new RequestFailed('The server cannot be reached.', { status: 0 })
  })
  if (response.ok) return response
  throw refusalOf(response.status, await response.text())
}

/** A component whose code is read once it is shown. */
export const lazyPart = <Name extends string, Props>(
  load: () => Promise<{ readonly [At in Name]: ComponentType<Props> }>,
  name: Name,
) => lazy(async () => ({ default: (await whenReached(load))[name] }))

type ErrorBody = {
  readonly error?: string
  readonly code?: string
  readonly fields?: readonly FieldProblem[]
  /** Of a self-hosted server, in place of `fields`. */
  readonly detail?: readonly { readonly loc: readonly (string | number)[]; readonly msg: string }[]
}

function refusalOf(status: number, text: string): RequestFailed {
  let body: ErrorBody = {}
  try {
    body = JSON.parse(text) as ErrorBody
  } catch {
    // A proxy's page: its status says all there is.
  }
  const message = typeof body.error === 'string' ? body.error : `The server answered with ${status}.`
  const { code, fields, detail } = body
  const told = Array.isArray(detail)
    ? detail.map(({ loc, msg }) => ({ path: `/${loc.slice(1).join('/')}`, error: msg }))
    : fields
  return new RequestFailed(message, { status, code, ...(Array.isArray(told) && { fields: told }) })
}

/** `?a=1&b=2` of what is there. */
export function queryOf(values: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== '')
  return given.length === 0 ? '' : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`
}

/** What a credential may not read it may not read the next time either: all is asked for anew when somebody signs in with another. */
export const isForbidden = ({ state }: { readonly state: { readonly error: unknown } }): boolean =>
  isRefusal(state.error, 403)

export const isRefusal = (error: unknown, status: number): boolean =>
  error instanceof RequestFailed && error.status === status
