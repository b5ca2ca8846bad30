import type { IncomingMessage, ServerResponse } from 'node:http'
import { startHttpServer } from './http-server.ts'

type Answer = (response: ServerResponse, request: IncomingMessage) => void

export type FileServer = {
  /** Without a slash at the end. */
  readonly url: string
  /** `127.0.0.1:<port>`, as an exception of the egress policy. */
  readonly host: string
  /** Paths in the order in which they were asked for. */
  readonly asked: string[]
  /** Resolves when a client has gone away before its answer had ended. */
  readonly abandoned: Promise<void>
}

/** Serves files by their paths: contents, or functions that answer. */
export async function startFileServer(files: Readonly<Record<string, string | Buffer | Answer>>): Promise<FileServer> {
  const { promise: abandoned, resolve } = Promise.withResolvers<void>()
  const asked: string[] = []
  const url = await startHttpServer((request, response) => {
    asked.push(request.url ?? '')
    response.once('close', () => {
      if (!response.writableFinished) resolve()
    })
    const file = files[request.url ?? '']
    if (typeof file === 'function') file(response, request)
    else if (file === undefined) response.writeHead(404).end('Not here.')
    else response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(file)
  })
  return { url, host: new URL(url).host, asked, abandoned }
}

/** The smallest contents that pass for their kind. */
export const PDF = Buffer.from('%PDF-1.4\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n')
export const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)
