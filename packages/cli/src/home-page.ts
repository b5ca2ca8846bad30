import { createHash } from 'node:crypto'
import type { createApp, ServerConfig } from '@bureau/server'

const STYLE =
  'body{font:16px/1.6 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem;color-scheme:light dark}'

const POLICY = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; frame-ancestors 'none'`

type App = Awaited<ReturnType<typeof createApp>>

type Link = readonly [address: string, text: string]

/** Serves a page with links at `/`, for whoever opens the address of a server in a browser. It says nothing of what is served. */
export function serveHomePage(app: App, links: readonly Link[]): void {
  const items = [...links, GUIDE_LINK].map(([address, text]) => `<li><a href="${address}">${text}</a></li>`).join('')
  const page =
    `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
    `<title>Bureau</title><style>${STYLE}</style><main><h1>Bureau</h1><p>This server answers.</p><ul>${items}</ul></main></html>`
  app.route({
    method: 'GET',
    url: '/',
    config: { open: true },
    handler: (_request, reply) =>
      reply
        .headers({ 'content-security-policy': POLICY, 'x-content-type-options': 'nosniff' })
        .type('text/html')
        .send(page),
  })
}

const GUIDE_LINK: Link = ['guide/README.md', 'The documents of this version, as text']

/** Relative, so that they lead on behind a proxy with a prefix. */
export const serverLinks = (config: Pick<ServerConfig, 'console'>): readonly Link[] => [
  ...(config.console ? ([['console/', 'The console']] as const) : []),
  ['docs', 'The routes of the agencies, to try out'],
  ['redoc', 'The routes of the agencies, to read'],
]
export const PLATFORM_LINKS: readonly Link[] = [
  ['v1/docs', 'The routes of the platform, to try out'],
  ['v1/redoc', 'The routes of the platform, to read'],
]
