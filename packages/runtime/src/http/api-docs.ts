import { fileURLToPath } from 'node:url'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { compress, readText, sendCompressed } from './compressed.ts'

/** The viewers' own files. From the repository they come from their packages; a published package carries copies. */
const ASSETS = {
  'swagger-ui.css': { from: 'swagger-ui-dist/swagger-ui.css', type: 'text/css; charset=utf-8' },
  'swagger-ui-bundle.js': { from: 'swagger-ui-dist/swagger-ui-bundle.js', type: 'text/javascript; charset=utf-8' },
  'redoc.standalone.js': { from: 'redoc/bundles/redoc.standalone.js', type: 'text/javascript; charset=utf-8' },
} as const

type AssetName = keyof typeof ASSETS

type ApiDocs = {
  /** Put before `/openapi.json`, `/docs` and `/redoc`: empty, or a path like `/v1`. */
  readonly prefix: string
  /** Made anew for each request, so that it may name the address that was asked. */
  readonly document: (request: FastifyRequest) => object
  /** Fastify's `config` of the routes. */
  readonly routeConfig?: object
}

/** Everything the pages need comes from this server; nothing is asked of any other. */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; frame-ancestors 'self'"

/** An API description and the two pages that show it, offline. */
export function apiDocsRoutes(app: FastifyInstance, { prefix, document, routeConfig = {} }: ApiDocs): void {
  const get = (path: string, answer: (reply: FastifyReply, request: FastifyRequest) => unknown): void => {
    app.get(prefix + path, { config: routeConfig }, async (request, reply) => answer(reply, request))
  }
  const html = (text: string) => (reply: FastifyReply) =>
    reply.type('text/html; charset=utf-8').header('content-security-policy', PAGE_POLICY).send(text)
  const script = (text: string) => (reply: FastifyReply) => reply.type('text/javascript; charset=utf-8').send(text)
  // It differs by the address alone that was asked, and nearly everybody asks the same.
  let latest: { readonly text: string; readonly content: Promise<Buffer> } | undefined
  get('/openapi.json', async (reply, request) => {
    const text = JSON.stringify(document(request))
    if (latest?.text !== text) latest = { text, content: compress(text) }
    return sendCompressed(request, reply.type('application/json; charset=utf-8'), await latest.content)
  })
  get('/docs', html(SWAGGER_PAGE))
  get('/redoc', html(REDOC_PAGE))
  get('/docs/assets/swagger-start.js', script(swaggerStart(prefix)))
  get('/docs/assets/redoc-start.js', script(REDOC_START))
  for (const name of Object.keys(ASSETS) as AssetName[]) {
    get(`/docs/assets/${name}`, async (reply, request) => {
      reply.type(ASSETS[name].type).header('cache-control', 'public, max-age=86400')
      return sendCompressed(request, reply, await readAsset(name))
    })
  }
}

const SWAGGER_PAGE = page(
  '<link rel="stylesheet" href="docs/assets/swagger-ui.css">',
  '<div id="viewer"></div><script src="docs/assets/swagger-ui-bundle.js"></script><script src="docs/assets/swagger-start.js"></script>',
)
const REDOC_PAGE = page(
  '',
  '<div id="viewer"></div><script src="docs/assets/redoc.standalone.js"></script><script src="docs/assets/redoc-start.js"></script>',
)
const REDOC_START = "Redoc.init('openapi.json', { disableSearch: false }, document.getElementById('viewer'))\n"

/** Requests go to wherever the page was opened, behind a proxy too: the page may not call any other address. */
function swaggerStart(prefix: string): string {
  const root = prefix === '' ? '.' : '..'
  return `fetch('openapi.json').then((answer) => answer.json()).then((spec) => {
  spec.servers = [{ url: new URL('${root}', location.href).href.replace(/\\/$/, '') }]
  for (const path of Object.values(spec.paths)) for (const operation of Object.values(path)) delete operation.servers
  SwaggerUIBundle({ spec, dom_id: '#viewer', deepLinking: true, validatorUrl: null, persistAuthorization: true })
})
`
}

/** The one thing that a viewer would ask another server for. */
const REMOTE_LOGO = 'https://cdn.redoc.ly/redoc/logo-mini.svg'
const EMPTY_IMAGE = 'data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22/%3E'

const loaded = new Map<AssetName, Promise<Buffer>>()

function readAsset(name: AssetName): Promise<Buffer> {
  const known = loaded.get(name)
  if (known) return known
  const reading = readText(fileURLToPath(new URL(`../assets/${name}`, import.meta.url)))
    .catch(() => readText(fileURLToPath(import.meta.resolve(ASSETS[name].from))))
    .then((text) => compress(text.replaceAll(REMOTE_LOGO, EMPTY_IMAGE)))
  loaded.set(name, reading)
  reading.catch(() => loaded.delete(name))
  return reading
}

function page(head: string, body: string): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>API documentation</title><meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,"><style>body{margin:0}</style>${head}</head><body>${body}</body></html>`
}
