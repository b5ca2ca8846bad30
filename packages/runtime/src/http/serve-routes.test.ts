import fastify, { type FastifyInstance } from 'fastify'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { errorGate, notFoundGate } from './error-gate.ts'
import { parseJson } from './json-body.ts'
import { ok, patternOf, routesOf } from './route.ts'
import { servedPaths, serveRoutes } from './serve-routes.ts'

const { jsonRoute, rawRoute } = routesOf<{ readonly who: string }>()
const COMMON = { tag: 'Things', summary: '', errors: [] }
const Thing = z.object({ name: z.string(), version: z.int() })

const routes = [
  jsonRoute({ ...COMMON, method: 'GET', url: '/things/:name', id: 'getThing', success: { 200: Thing } }, async (call) =>
    ok({ name: `${call.params['name']} of ${call.who}`, version: 7 }),
  ),
  rawRoute(
    { ...COMMON, method: 'PUT', url: '/things/:name', id: 'putThing', success: { 204: null }, rawBody: true },
    async ({ request }, reply) => {
      const pieces: unknown[] = []
      for await (const piece of request.body as AsyncIterable<unknown>) pieces.push(String(piece))
      return reply.header('x-received', pieces.join('')).code(204).send()
    },
  ),
]

function serve(): FastifyInstance {
  const app = fastify({ exposeHeadRoutes: false })
  const gate = errorGate((error) => ({ status: 400, headers: {}, body: { error: error.message } }))
  app.setNotFoundHandler(notFoundGate(servedPaths(app), gate, '/openapi.json'))
  serveRoutes(app, routes, {
    configOf: () => ({}),
    admit: () => ({ who: 'ada' }),
    parse: (schema, input) => schema.parse(input),
    answer: (_route, _call, work) => work(),
  })
  app.get('/added/:later', async () => 'yes')
  for (const url of ['/added/things/all', '/more/things/all', '/v1/things/:name/parts']) app.get(url, async () => 'yes')
  return app
}

test('a row is served: its calls are given what the app hands them, and a version becomes an entity tag', async () => {
  const answer = await serve().inject('/things/hat')

  expect(answer.json()).toEqual({ name: 'hat of ada', version: 7 })
  expect(answer.headers['etag']).toBe('"7"')
})

test('a row with a raw body gets its bytes, whatever their type', async () => {
  const headers = { 'content-type': 'application/json' }
  const answer = await serve().inject({ method: 'PUT', url: '/things/hat', headers, payload: '{not json' })

  expect([answer.statusCode, answer.headers['x-received']]).toEqual([204, '{not json'])
})

test.each([
  ['/things/hat', 'GET, PUT'],
  ['/added/x', 'GET'],
  ['/nothing', undefined],
])('DELETE %s is refused with the methods %s', async (url, allow) => {
  const answer = await serve().inject({ method: 'DELETE', url })

  expect(answer.headers['allow']).toBe(allow)
  expect(answer.json().error).toContain(allow ? `${url} accepts ` : `There is no route DELETE ${url}.`)
})

test.each([
  ['/all', 'There is no route GET /all. Did you mean /added/things/all or /more/things/all? GET /openapi.json'],
  ['/a/b/all', 'There is no route GET /a/b/all. Did you mean /added/things/all or /more/things/all? GET /openapi.json'],
  [
    '/api/more/things/all/',
    'There is no route GET /api/more/things/all/. Did you mean /more/things/all? GET /openapi.json',
  ],
  [
    '/thing/hat/parts',
    'There is no route GET /thing/hat/parts. Did you mean /v1/things/{name}/parts? GET /openapi.json',
  ],
  ['/api/added/hat', 'There is no route GET /api/added/hat. Did you mean /added/{later}? GET /openapi.json'],
  ['/things', 'There is no route GET /things. GET /openapi.json'],
  ['/', 'There is no route GET /. GET /openapi.json'],
])('GET %s is answered with the paths that end as it does', async (url, error) => {
  const answer = await serve().inject(url)

  expect(answer.json().error).toContain(error)
})

test('an answer that its row does not describe does not compile', () => {
  const spec = { ...COMMON, method: 'GET', url: '/', id: 'x', success: { 200: Thing } } as const

  // @ts-expect-error a member is missing
  const incomplete = jsonRoute(spec, async () => ok({ name: 'hat' }))
  // @ts-expect-error the status is another one
  const accepted = jsonRoute(spec, async () => ({ status: 202, body: { name: 'hat', version: 1 } }))

  expect([incomplete, accepted]).toMatchObject([spec, spec])
})

test('paths are matched as they are written, but for their parameters', () => {
  expect(patternOf('/v1.0/a+b/:name').test('/v1.0/a+b/c')).toBe(true)
  expect(patternOf('/v1.0/a+b/:name').test('/v1x0/aab/c')).toBe(false)
  expect(patternOf('*').test('/')).toBe(false)
})

test('text that is not UTF-8 is not JSON', () => {
  expect(() => parseJson(Buffer.from([0x22, 0xff, 0x22]))).toThrow('JSON is not valid UTF-8')
})
