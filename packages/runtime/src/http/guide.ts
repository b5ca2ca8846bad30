import { existsSync, globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { compress, sendCompressed } from './compressed.ts'

/** The page that names all others. */
const LIST = 'docs/README.md'

/** By their place in the repository. A published package carries copies (scripts/pack.ts). */
const FILES: readonly string[] = [
  'docs/**/*.md',
  'examples/*.{md,ts}',
  'deploy/**/*.*',
  'deploy/Dockerfile',
  'ARCHITECTURE.md',
]

type Guide = {
  /** Fastify's `config` of the routes. */
  readonly routeConfig?: object
}

/**
 * The documents of this version, for programs and for people without the internet: `/guide`, `/guide/<page>.md`, with the examples
 * below `/guide/examples`, the files to deploy with below `/guide/deploy`, and `/llms.txt`, which lists the pages
 * (https://llmstxt.org).
 *
 * Only files of the list are ever read, so no path of a request reaches the file system.
 */
export function guideRoutes(app: FastifyInstance, { routeConfig = {} }: Guide = {}): void {
  // Listed when a page is first asked for: most servers never are.
  let listed: ReadonlyMap<string, string> | undefined
  const send = async (request: FastifyRequest, reply: FastifyReply, type: string, text: string) => {
    reply.type(`text/${type}; charset=utf-8`).header('content-security-policy', "default-src 'none'")
    return sendCompressed(request, reply, await compress(text))
  }

  app.get('/llms.txt', { config: routeConfig }, async (request, reply) =>
    send(request, reply, 'plain', llmsText(await readPage(LIST))),
  )
  app.get('/guide', { config: routeConfig }, async (_request, reply) => reply.redirect('guide/README.md'))
  app.get<{ Params: { '*': string } }>('/guide/*', { config: routeConfig }, async (request, reply) => {
    const file = (listed ??= listFiles()).get(request.params['*'])
    if (file === undefined) return reply.callNotFound()
    return send(request, reply, file.endsWith('.md') ? 'markdown' : 'plain', await readPage(file))
  })
}

/** Beside the compiled package, or the repository itself. */
const ROOT = ['../guide/', '../../../../']
  .map((folder) => fileURLToPath(new URL(folder, import.meta.url)))
  .find((folder) => existsSync(path.join(folder, LIST)))

/** Files of the repository by their names in the guide. */
function listFiles(): ReadonlyMap<string, string> {
  const files = ROOT === undefined ? [] : globSync(FILES, { cwd: ROOT })
  return new Map(files.map((file) => [guideName(file), file]))
}

const guideName = (file: string): string => file.replace(/^docs\//, '')

/** A page with its links as they lead within the guide, where `docs` is the top. */
async function readPage(file: string): Promise<string> {
  const text = await readFile(path.join(ROOT!, file), 'utf8')
  if (!file.endsWith('.md')) return text
  const here = path.posix.dirname(guideName(file))
  return text.replaceAll(/\]\((?![a-z]+:|[#/])([^)#\s]+)/g, (_link, target: string) => {
    const name = guideName(path.posix.join(path.posix.dirname(file), target))
    return `](${path.posix.relative(here, name)}`
  })
}

/** The list of the documents (docs/README.md), in the form of llmstxt.org: its tables become sections of links. */
function llmsText(list: string): string {
  const lines = list.split('\n').flatMap((line) => {
    const linked = line.replaceAll('](', '](guide/')
    const [, link, about] = /^\| (\[.+?\]\(.+?\)) \| (.*?) \|$/.exec(linked) ?? []
    if (link !== undefined) return [`- ${link}: ${about}`]
    const [, heading] = /^\| (\w[^|]*) \| \|$/.exec(line) ?? []
    if (heading !== undefined) return ['', `## ${heading}`, '']
    return !line.startsWith('|') && linked !== line ? [linked] : []
  })
  return `# Bureau\n\n> ${ABOUT}\n\n${lines.join('\n')}\n`
}

const ABOUT = 'The open agent server for TypeScript: write agencies of AI agents in code, serve them over HTTP.'
