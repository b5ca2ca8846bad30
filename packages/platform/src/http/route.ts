import type { ErrorCode } from '@bureau/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { Caller, Scope } from '../api-keys/caller.ts'
import type { Platform } from '../context.ts'
import type { InputCodes } from './parse-input.ts'

/** How errors of a route look. `rest` is `{error, code, requestId, fields?}`. */
export type Surface = 'completion' | 'create_chat' | 'rest'

type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** What a success carries: a JSON schema, or the content type of anything else; null for an empty body. */
export type SuccessBody = z.ZodType | TextBody | null

/** `otherContentType`: what the same operation answers with when it is asked for, or set, to. */
type TextBody = {
  readonly contentType: string
  readonly otherContentType?: string
  readonly description: string
  readonly example?: string
  /** Response headers worth describing: name and meaning. */
  readonly headers?: Readonly<Record<string, string>>
}

type Spec<Query extends z.ZodType, Body extends z.ZodType> = {
  readonly method: Method
  /** In Fastify's form: `/v1/runs/:runId`. */
  readonly url: string
  /** Operation id in the API description. */
  readonly id: string
  readonly tag: string
  readonly summary: string
  readonly description?: string
  /** What the API key must be allowed to do; null: the route is open to everybody. */
  readonly scope: Scope | null
  /** About all integrations at once: not for a key that is restricted to some. */
  readonly everyIntegration?: true
  readonly query?: Query
  readonly body?: Body
  /** An absent body counts as `{}`. */
  readonly bodyOptional?: true
  /** The body may be `null` instead of an object. */
  readonly nullableBody?: true
  readonly codes?: InputCodes
  readonly success: Readonly<Record<number, SuccessBody>>
  /** Refusals that are this route's own; those that every route has are known. */
  readonly errors: readonly ErrorCode[]
  /** Honours `Idempotency-Key`. */
  readonly idempotent?: true
  /** Members of the answer that are secrets: null in the answer of a repeated `Idempotency-Key`. */
  readonly shownOnce?: readonly string[]
  /** Request headers worth describing: name and meaning. */
  readonly headers?: Readonly<Record<string, string>>
  /** Examples for the API description. */
  readonly examples?: { readonly request?: unknown; readonly response?: unknown }
  readonly surface?: Surface
  /** Schema of the error body. Default: that of `rest`. */
  readonly errorBody?: z.ZodType
  /** Starts runs: refused before anything else while this process cannot take one. */
  readonly admits?: true
  /** The body is not JSON: `request.body` is the stream of its bytes. */
  readonly rawBody?: true
  /** Largest body in bytes. Default 262,144. */
  readonly maxBodyBytes?: number
}

/** A request that was authenticated and checked. */
export type Call<Query = unknown, Body = unknown> = {
  readonly platform: Platform
  readonly caller: Caller
  readonly params: Readonly<Record<string, string>>
  readonly query: Query
  readonly body: Body
  readonly request: FastifyRequest
}

/** A JSON answer. */
export type Answered = {
  readonly status: number
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export type Route = Spec<z.ZodType, z.ZodType> & {
  /** A JSON answer. Absent: `handle` writes the reply itself. */
  readonly answer?: (call: Call) => Promise<Answered>
  readonly handle?: (call: Call, reply: FastifyReply) => Promise<unknown>
}

type None = z.ZodUndefined

/** A route with a JSON answer: what is checked, what it may answer, and the function that does. */
export function jsonRoute<Query extends z.ZodType = None, Body extends z.ZodType = None>(
  spec: Spec<Query, Body>,
  answer: (call: Call<z.output<Query>, z.output<Body>>) => Promise<Answered>,
): Route {
  return { ...spec, answer } as Route
}

/** A route that writes its reply itself: a stream, bytes, or headers only. */
export function rawRoute<Query extends z.ZodType = None, Body extends z.ZodType = None>(
  spec: Spec<Query, Body>,
  handle: (call: Call<z.output<Query>, z.output<Body>>, reply: FastifyReply) => Promise<unknown>,
): Route {
  return { ...spec, handle } as Route
}

export const ok = (body: unknown, headers?: Readonly<Record<string, string>>): Answered => ({
  status: 200,
  body,
  ...(headers && { headers }),
})

export const created = (body: unknown, headers?: Readonly<Record<string, string>>): Answered => ({
  ...ok(body, headers),
  status: 201,
})

export const NO_CONTENT: Answered = { status: 204, body: undefined }

/** A parameter of the route's own URL. */
export function param({ params }: Pick<Call, 'params'>, name: string): string {
  const value = params[name]
  if (value === undefined) throw new Error(`the route has no parameter ${name}`)
  return value
}

/** The methods that routes have for a path. */
export function methodsOf(routes: readonly Route[], path: string): string[] {
  return [...new Set(routes.filter(({ url }) => patternOf(url).test(path)).map(({ method }) => method))]
}

/** What the paths of a route look like. */
export function patternOf(url: string): RegExp {
  return new RegExp(`^${url.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}$`)
}
