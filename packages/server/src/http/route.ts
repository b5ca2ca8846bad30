import { type Route, type RouteSettings, routesOf } from '@bureau/runtime'
import { parseBody, parseQuery } from './invalid-body.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True: the route needs no token. */
    readonly open?: boolean
    /** True: the route checks its caller itself, because its credentials may come in other ways than a header. */
    readonly authenticatesItself?: boolean
  }
}

/** What a row of the server says besides. */
type Rules = { readonly open?: true; readonly authenticatesItself?: true }

export type ServerRoute = Route<object, Rules>

const constructors = routesOf<object, Rules>()

export const jsonRoute: ReturnType<typeof routesOf<object, Rules>>['jsonRoute'] = constructors.jsonRoute
export const rawRoute: ReturnType<typeof routesOf<object, Rules>>['rawRoute'] = constructors.rawRoute

/** Callers were checked before their bodies were read, so all that is left is the form of what they send. */
export const ROUTE_SETTINGS: RouteSettings<object, Rules> = {
  configOf: ({ open = false, authenticatesItself = false }) => ({ open, authenticatesItself }),
  admit: () => ({}),
  parse: (schema, input, { route, name }) =>
    name === 'query' ? parseQuery(schema, input, route.codes) : parseBody(schema, input),
  answer: (_route, _call, work) => work(),
}

/** Operation id and summary, as clients of the Python system know them. */
export function named(id: string): { readonly id: string; readonly summary: string } {
  const summary = id
    .replace(/^handler_|_(?:post|get)$/g, '')
    .replace(/(?:^|_)(\w)/g, (_, letter: string) => ` ${letter.toUpperCase()}`)
    .trim()
  return { id, summary }
}
