import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { ServiceError } from '@bureau/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { readCompressed, sendCompressed } from './compressed.ts'

/** A published package carries the built console; in the repository it is in the `dist` of its own package. */
const FOLDERS = ['../console/', '../../../console/dist/'].map((folder) =>
  fileURLToPath(new URL(folder, import.meta.url)),
)

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Scripts, styles and requests of this server alone. Pictures are those that a chat holds: no address is ever loaded. */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** What the page must know before anybody has signed in. */
type ConsoleFacts = {
  readonly version: string
  /** Whether agencies of a self-hosted server are here, and whether they need its token. */
  readonly agencies: 'none' | 'open' | 'token'
  /** Whether the hosted platform is here, too. */
  platform: boolean
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Of apps with a console; whoever shares the app's port may change it before it listens. */
    readonly consoleFacts?: ConsoleFacts
  }
}

const IMMUTABLE = 'public, max-age=31536000, immutable'

/**
 * Serves the console at `/console/`, at any prefix that a proxy puts before it. The page has nothing secret: whoever
 * opens it signs in there.
 *
 * @param routeConfig - Fastify's `config` of the routes, by which the app lets them pass without a token.
 */
export function consoleRoutes(app: FastifyInstance, routeConfig: object, facts: ConsoleFacts): void {
  app.decorate('consoleFacts', facts)
  // The names of assets hold the hash of their content, so that they are read once.
  const assets = new Map<string, Promise<Served | undefined>>()
  const readAsset = (name: string): Promise<Served | undefined> => {
    const known = assets.get(name)
    if (known) return known
    if (!ASSET.test(name)) return Promise.resolve(undefined)
    const reading = readServed(`assets/${name}`)
    // What is not there is not remembered: anybody may ask for any number of names.
    void reading.then((file) => file && assets.set(name, reading))
    return reading
  }
  app.get('/console', { config: routeConfig }, async (request, reply) => toFolder(request, reply))
  app.get('/console/', { config: routeConfig }, async (request, reply) => sendPage(request, reply))
  app.get('/console/server.json', { config: routeConfig }, async (_request, reply) =>
    reply.header('cache-control', 'no-store').send(facts),
  )
  app.get<{ Params: { name: string } }>('/console/assets/:name', { config: routeConfig }, async (request, reply) => {
    const file = await readAsset(request.params.name)
    if (!file) throw new ServiceError('file_not_found')
    return send(request, reply.header('cache-control', IMMUTABLE), file)
  })
}

/** A relative address, because only the browser knows what stands before it. */
function toFolder({ url }: FastifyRequest, reply: FastifyReply): FastifyReply {
  const query = url.indexOf('?')
  return reply
    .code(302)
    .header('location', `console/${query < 0 ? '' : url.slice(query)}`)
    .send()
}

async function sendPage(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const page = await readServed('index.html')
  reply.header('cache-control', 'no-cache').header('content-security-policy', PAGE_POLICY)
  reply.header('referrer-policy', 'no-referrer').header('cross-origin-opener-policy', 'same-origin')
  if (page) return send(request, reply, page)
  return reply.code(503).type(TYPES['.html']!).send(NOT_BUILT)
}

const NOT_BUILT =
  '<!doctype html><html lang="en"><meta charset="utf-8"><title>Bureau</title><p>The console is not built. In a checkout: <code>npm run build:console</code>.</p></html>'

type Served = { readonly type: string; readonly content: Buffer }

function send(request: FastifyRequest, reply: FastifyReply, { type, content }: Served): Promise<FastifyReply> {
  return sendCompressed(request, reply.type(type), content)
}

const ASSET = /^[\w-][\w.-]*\.(?:js|css|svg)$/

async function readServed(name: string): Promise<Served | undefined> {
  for (const folder of FOLDERS) {
    const content = await readCompressed(path.join(folder, name)).catch(() => undefined)
    if (content) return { type: TYPES[path.extname(name)]!, content }
  }
  return undefined
}
