import { request as httpRequest } from 'node:http'
import { startHttpServer } from './http-server.ts'

/** A proxy that passes everything under `prefix` on to `target`, without the prefix. Gives its address with the prefix. */
export async function startPrefixProxy(target: string, prefix: string): Promise<string> {
  const url = await startHttpServer((incoming, outgoing) => {
    const path = incoming.url ?? '/'
    if (!path.startsWith(`${prefix}/`)) return void outgoing.writeHead(404).end()
    const { method, headers } = incoming
    const passed = httpRequest(target + path.slice(prefix.length), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(outgoing)
    })
    incoming.pipe(passed)
  })
  return url + prefix
}
