import type { ApiKeyScope, ConsumerScope } from '@bureau/protocol'
import { type Call as CallOf, type Route as RouteOf, routesOf } from '@bureau/runtime'
import type { Caller } from '../caller.ts'
import type { Platform } from '../context.ts'

/** How errors of a route look. `rest` is `{error, code, requestId, fields?}`. */
export type Surface = 'completion' | 'create_chat' | 'rest'

/** What routes of the platform are given. */
export type Given = { readonly platform: Platform; readonly caller: Caller }

/** What a row of the platform says besides. */
export type Rules = {
  /** What the API key must be allowed to do; null: the route is open to everybody. */
  readonly scope: ApiKeyScope | null
  /** For the operator, whose key is in the environment. */
  readonly operator?: true
  /** Pages of consumers may ask too, with a consumer token of this scope. Absent: API keys alone. */
  readonly consumer?: ConsumerScope
  /** About all integrations at once: not for a key that is restricted to some. */
  readonly everyIntegration?: true
  /** The body may be `null` instead of an object. */
  readonly nullableBody?: true
  /** The body may be any JSON, which the route checks. */
  readonly anyBody?: true
  /** Honours `Idempotency-Key`. */
  readonly idempotent?: true
  /** Members of the answer that are secrets: null in the answer of a repeated `Idempotency-Key`. */
  readonly shownOnce?: readonly string[]
  readonly surface?: Surface
  /** Starts runs: refused before anything else while this process cannot take one. */
  readonly admits?: true
}

export type Route = RouteOf<Given, Rules>
export type Call<Query = unknown, Body = unknown> = CallOf<Given, Query, Body>

const constructors = routesOf<Given, Rules>()

export const jsonRoute: ReturnType<typeof routesOf<Given, Rules>>['jsonRoute'] = constructors.jsonRoute
export const rawRoute: ReturnType<typeof routesOf<Given, Rules>>['rawRoute'] = constructors.rawRoute
