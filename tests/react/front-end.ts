import { readFileSync } from 'node:fs'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import path from 'node:path'
import { rolldown } from 'rolldown'
import { startHttpServer } from '../support/http-server.ts'
import { blocksOf, fileOf, ROOT } from '../docs/page.ts'

/** Both pages of docs/react.md that are called `client.ts`. */
export const CLIENTS = sourcesOf('client.ts')

/** The whole front end of docs/react.md, as its reader writes it. */
export const FRONT_END = sourcesOf('chat.tsx')[0]!

function sourcesOf(name: string): string[] {
  return blocksOf('docs/react.md')
    .filter((block) => fileOf(block) === name)
    .map(({ text }) => text)
}

const ofTemplate = (name: string): string =>
  readFileSync(path.join(ROOT, 'packages/create-bureau/templates/nextjs/app', name), 'utf8')

/** The page of the Next.js template, for an agency that is served where the page is. */
export const TEMPLATE = {
  source: ofTemplate('chat.tsx').replaceAll('/agents/support', '/support'),
  style: ofTemplate('page.css'),
}

type FrontEnd = {
  readonly file?: string
  readonly source?: string
  readonly client: string
  /** Default: none, so that it looks as browsers have it. */
  readonly style?: string
}

/** What the page of a reader is, who has the files of docs/react.md in one folder. */
async function bundle({ file, source, client }: Required<Omit<FrontEnd, 'style'>>): Promise<string> {
  const entry = `import { createElement, StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { Chat } from './${file}'
createRoot(document.getElementById('root')!).render(createElement(StrictMode, null, createElement(Chat)))`
  const files: Readonly<Record<string, string>> = {
    'entry.ts': entry,
    [file]: source,
    'client.ts': client,
  }
  const folder = path.join(ROOT, 'tests/react/reader')
  const build = await rolldown({
    input: path.join(folder, 'entry.ts'),
    platform: 'browser',
    resolve: { conditionNames: ['@bureau/source', 'browser', 'import', 'module', 'default'] },
    transform: { jsx: 'react-jsx', define: { 'process.env.NODE_ENV': '"development"' } },
    plugins: [
      {
        name: 'files of the page',
        resolveId: (id, importer) => {
          const isOurs = importer === undefined || importer.startsWith(folder)
          return isOurs && (id.startsWith('.') || id.startsWith(folder)) ? path.resolve(folder, id) : null
        },
        load: (id) => files[path.relative(folder, id)] ?? null,
      },
    ],
  })
  const { output } = await build.generate()
  await build.close()
  return output[0].code
}

/**
 * Serves a component of docs/react.md as a page, and everything else from a server behind it, so that both have one
 * origin.
 */
export async function serveFrontEnd(
  target: string,
  {
    file = 'chat.tsx',
    source = sourcesOf(file)[0]!,
    client,
    style = '',
    token = '',
  }: FrontEnd & { readonly token?: string },
): Promise<string> {
  const script = await bundle({ file, source, client })
  const own: Readonly<Record<string, readonly [type: string, body: string]>> = {
    '/': [
      'text/html',
      `<!doctype html><meta charset="utf-8"><title>Chat</title><style>${style}</style><body id="root"><script type="module" src="/app.js"></script>`,
    ],
    '/app.js': ['text/javascript', script],
    '/favicon.ico': ['image/x-icon', ''],
    '/agents-token': ['text/plain', token],
  }
  const url = await startHttpServer((incoming, answer) => {
    const found = own[incoming.url ?? '']
    if (!found) return handOn(target, incoming, answer)
    answer.setHeader('content-type', `${found[0]}; charset=utf-8`).end(found[1])
  })
  return `${url}/`
}

function handOn(target: string, incoming: IncomingMessage, answer: ServerResponse): void {
  const { method, headers, url = '/' } = incoming
  const outgoing = request(new URL(url, target), { method, headers }, (response) => {
    answer.writeHead(response.statusCode ?? 502, response.headers).flushHeaders()
    response.pipe(answer)
  })
  outgoing.on('error', () => answer.destroy())
  // A page that leaves must be noticed by the server behind.
  answer.on('close', () => outgoing.destroy())
  incoming.pipe(outgoing)
}
