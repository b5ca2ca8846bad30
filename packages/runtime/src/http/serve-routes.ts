import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { BodyReceiver } from './receive-body.ts'
import { type Answered, type Call, patternOf, type Route } from './route.ts'

/** How one app carries out its rows. */
export type RouteSettings<Given, Rules> = {
  /** Fastify's `config` of the route, which the hooks of the app read. */
  readonly configOf: (route: Route<Given, Rules>) => object
  /** Who asks, and whether that caller may: looked at before query and body. Returns what the calls of the app are given. */
  readonly admit: (route: Route<Given, Rules>, request: FastifyRequest) => Given
  /** Checks the query or the body of a request. An absent body is undefined, or `{}` where it may be absent. */
  readonly parse: (schema: z.ZodType, input: unknown, part: RoutePart<Given, Rules>) => unknown
  /** Answers a call, by the function of its route. */
  readonly answer: (route: Route<Given, Rules>, call: Call<Given>, work: () => Promise<Answered>) => Promise<Answered>
}

type RoutePart<Given, Rules> = { readonly route: Route<Given, Rules>; readonly name: 'query' | 'body' }

/** Registers the rows of an app: what they demand is checked in one order for all, then their functions answer. */
export function serveRoutes<Given, Rules>(
  app: FastifyInstance,
  routes: readonly Route<Given, Rules>[],
  settings: RouteSettings<Given, Rules>,
): void {
  for (const route of routes) if (!route.rawBody) serveRoute(app, route, settings)
  if (!routes.some(({ rawBody }) => rawBody)) return
  void app.register(async (scope) => {
    const bodies = new BodyReceiver()
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, payload: Readable, done) => done(null, bodies.passOn(payload)))
    for (const route of routes) if (route.rawBody) serveRoute(scope, route, settings)
  })
}

function serveRoute<Given, Rules>(
  app: FastifyInstance,
  route: Route<Given, Rules>,
  settings: RouteSettings<Given, Rules>,
): void {
  const { method, url, maxBodyBytes, handle, answer } = route
  app.route({
    ...route.fastify,
    method,
    url,
    ...(maxBodyBytes !== undefined && { bodyLimit: maxBodyBytes }),
    config: settings.configOf(route),
    handler: async (request, reply) => {
      const call = readCall(route, request, settings)
      if (handle) return handle(call, reply)
      if (!answer) throw new Error(`route ${route.id} has no function`)
      return send(reply, await settings.answer(route, call, () => answer(call)))
    },
  })
}

function readCall<Given, Rules>(
  route: Route<Given, Rules>,
  request: FastifyRequest,
  { admit, parse }: RouteSettings<Given, Rules>,
): Call<Given> {
  const given = admit(route, request)
  const { query, body } = route
  const sent = request.body === undefined && route.bodyOptional ? {} : request.body
  return {
    ...given,
    params: request.params as Record<string, string>,
    query: query && parse(query, request.query, { route, name: 'query' }),
    body: body && parse(body, sent, { route, name: 'body' }),
    request,
  }
}

function send(reply: FastifyReply, { status, body, headers }: Answered): FastifyReply {
  reply.code(status)
  for (const [name, value] of Object.entries({ ...versionTag(body), ...headers })) reply.header(name, value)
  return body === undefined ? reply.send() : reply.send(body)
}

/** A resource that counts its changes has its version as entity tag. */
function versionTag(body: unknown): Record<string, string> {
  const version = (body as { version?: unknown } | null | undefined)?.version
  return typeof version === 'number' ? { ETag: `"${version}"` } : {}
}

/** What the routes of an app know of a path. */
export type ServedPaths = {
  /** The methods that it takes; none: there is no such path. */
  readonly methodsAt: (path: string) => readonly string[]
  /** A few paths that share the most segments at their end with it: one with a mistake in front is mostly one of these. */
  readonly endingAs: (path: string) => readonly string[]
}

const MAX_PATHS = 3

/** Routes that are added later are included. Call it before any is added. */
export function servedPaths(app: FastifyInstance): ServedPaths {
  const routes: { readonly pattern: RegExp; readonly methods: readonly string[] }[] = []
  /** The segments of each path, as documents write it: `/v1/runs/{runId}`. */
  const written = new Map<string, readonly string[]>()
  app.addHook('onRoute', ({ url, method }) => {
    routes.push({ pattern: patternOf(url), methods: [method].flat() })
    const path = url.replaceAll(/\/:(\w+)(?=\/|$)/g, '/{$1}')
    if (!/[:*]/.test(path)) written.set(path, segmentsOf(path))
  })
  return {
    methodsAt: (path) => [...new Set(routes.flatMap(({ pattern, methods }) => (pattern.test(path) ? methods : [])))],
    endingAs: (path) => {
      const asked = segmentsOf(path)
      const ends = [...written].map(([url, segments]) => ({ url, shared: sharedEnd(segments, asked) }))
      const most = Math.max(1, ...ends.map(({ shared }) => shared))
      return ends.flatMap(({ url, shared }) => (shared === most ? [url] : [])).slice(0, MAX_PATHS)
    },
  }
}

const segmentsOf = (path: string): readonly string[] => path.split('/').filter((segment) => segment !== '')

/** How many segments at the end of a path are those at the end of the asked one. A parameter may be any, and does not count. */
function sharedEnd(path: readonly string[], asked: readonly string[]): number {
  let shared = 0
  for (let at = -1; at >= -Math.min(path.length, asked.length); at--) {
    if (path.at(at)!.startsWith('{')) continue
    if (path.at(at) !== asked.at(at)) break
    shared++
  }
  return shared
}
