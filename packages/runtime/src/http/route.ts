import type { ErrorCode } from '@bureau/protocol'
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { z } from 'zod'

/**
 * A route is a row: where it is, what it takes, what it may answer, and the function that answers. The rows of an app
 * are served by `serveRoutes` and described by `apiDocument`.
 */

type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** What a success carries: a JSON schema, or the content type of anything else; null for an empty body. */
export type SuccessBody = z.ZodType | TextBody | null

/** `otherContentType`: what the same operation answers with when it is asked for, or set, to. */
export type TextBody = {
  readonly contentType: string
  readonly otherContentType?: string
  /** What programs get, where people get a page. */
  readonly json?: z.ZodType
  readonly description: string
  readonly example?: string
  /** Response headers worth describing: name and meaning. */
  readonly headers?: Readonly<Record<string, string>>
}

/** The code of a problem by the first segment of its path, `name/*` for what lies below; `*` is for all others. */
export type InputCodes = Readonly<Record<string, ErrorCode>>

/** A JSON schema (draft 2020-12) that goes by a name of its own in the API description. */
export type NamedSchema = { readonly name: string; readonly jsonSchema: object }

type Successes = Readonly<Record<number, SuccessBody>>

/** What is known of a route without its function. */
export type RouteSpec<Query extends z.ZodType = z.ZodType, Body extends z.ZodType = z.ZodType> = {
  readonly method: Method
  /** In Fastify's form: `/v1/runs/:runId`. */
  readonly url: string
  /** Operation id in the API description. */
  readonly id: string
  readonly tag: string
  readonly summary: string
  readonly description?: string
  readonly query?: Query
  /** In place of `query`: the function checks the query itself. */
  readonly ownQuery?: z.ZodType
  readonly body?: Body
  /** In place of `body`: the function checks the body by rules that go beyond this schema. */
  readonly ownBody?: z.ZodType | NamedSchema
  /** An absent body counts as `{}`. */
  readonly bodyOptional?: true
  readonly codes?: InputCodes
  readonly success: Successes
  /** Refusals that are this route's own; those that every route has are known. */
  readonly errors: readonly ErrorCode[]
  /** Schema of the error body. Default: that of the app. */
  readonly errorBody?: z.ZodType
  /** What neither `success` nor `errors` says, by status or `4XX`. Replaces what they say of the same status. */
  readonly otherResponses?: Readonly<Record<string, { readonly description: string; readonly body?: z.ZodType }>>
  /** Request headers worth describing: name and meaning. */
  readonly headers?: Readonly<Record<string, string>>
  /** Examples for the API description. */
  readonly examples?: { readonly request?: unknown; readonly response?: unknown }
  /** The body is not JSON: `request.body` is the stream of its bytes. */
  readonly rawBody?: true
  /** Largest body in bytes. Default: that of the app. */
  readonly maxBodyBytes?: number
  /** Fastify's own options, for instance hooks of this route alone. */
  readonly fastify?: Partial<RouteOptions>
}

/** A request that was authenticated and checked. `Given` is what the app hands to its routes. */
export type Call<Given = unknown, Query = unknown, Body = unknown> = Given & {
  readonly params: Readonly<Record<string, string>>
  readonly query: Query
  readonly body: Body
  readonly request: FastifyRequest
}

/** A JSON answer. */
export type Answered<Status extends number = number, Body = unknown> = {
  readonly status: Status
  readonly body: Body
  readonly headers?: Readonly<Record<string, string>>
}

/** What a route may answer: with each status of its row, what is described there. */
type AnswerOf<Success extends Successes> = {
  [Status in keyof Success & number]: Answered<
    Status,
    Success[Status] extends z.ZodType ? z.output<Success[Status]> : undefined
  >
}[keyof Success & number]

/** `Rules` are the members of a row that only this app has. */
export type Route<Given = unknown, Rules = unknown> = RouteSpec &
  Rules & {
    /** A JSON answer. Absent: `handle` writes the reply itself. */
    readonly answer?: (call: Call<Given>) => Promise<Answered>
    readonly handle?: (call: Call<Given>, reply: FastifyReply) => Promise<unknown>
  }

type None = z.ZodUndefined

/** The constructors of the rows of one app. They check at compile time that a function answers what its row says. */
export function routesOf<Given, Rules = unknown>() {
  return {
    /** A route with a JSON answer: what is checked, what it may answer, and the function that does. */
    jsonRoute: <const Success extends Successes, Query extends z.ZodType = None, Body extends z.ZodType = None>(
      spec: RouteSpec<Query, Body> & Rules & { readonly success: Success },
      answer: (call: Call<Given, z.output<Query>, z.output<Body>>) => Promise<AnswerOf<Success>>,
    ): Route<Given, Rules> => ({ ...spec, answer }) as unknown as Route<Given, Rules>,

    /** A route that writes its reply itself: a stream, bytes, or headers only. */
    rawRoute: <Query extends z.ZodType = None, Body extends z.ZodType = None>(
      spec: RouteSpec<Query, Body> & Rules,
      handle: (call: Call<Given, z.output<Query>, z.output<Body>>, reply: FastifyReply) => Promise<unknown>,
    ): Route<Given, Rules> => ({ ...spec, handle }) as unknown as Route<Given, Rules>,
  }
}

export const ok = <Body>(body: Body, headers?: Answered['headers']): Answered<200, Body> => ({
  status: 200,
  body,
  ...(headers && { headers }),
})

export const created = <Body>(body: Body, headers?: Answered['headers']): Answered<201, Body> => ({
  ...ok(body, headers),
  status: 201,
})

export const NO_CONTENT: Answered<204, undefined> = { status: 204, body: undefined }

/** A parameter of the route's own URL. */
export function param({ params }: Pick<Call, 'params'>, name: string): string {
  const value = params[name]
  if (value === undefined) throw new Error(`the route has no parameter ${name}`)
  return value
}

/** What the paths of a route look like. */
export function patternOf(url: string): RegExp {
  return new RegExp(`^${url.replaceAll(/[.*+?^$()|[\]{}\\]/g, '\\$&').replaceAll(/:\w+/g, '[^/]+')}$`)
}
