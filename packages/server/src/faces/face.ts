import type { Agency } from '@bureau/framework'
import type { ServerContext } from '../context.ts'
import type { ServerRoute } from '../http/route.ts'

/** An agency and the name under which it is served. */
export type ServedAgency = {
  readonly name: string
  readonly agency: Agency
  /** True: requests must come from a user, to whom the agency's sign-ins belong. */
  readonly needsUser: boolean
  readonly context: ServerContext
}

/** A protocol for runs: the routes of one agency that speak it. A folder each, beside this file. */
export type Face = (served: ServedAgency) => readonly ServerRoute[]
