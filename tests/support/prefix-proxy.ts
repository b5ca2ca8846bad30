import { once } from 'node:events'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { closeAfterTest } from './test-server.ts'

/** A proxy that passes everything under `prefix` on to `target`, without the prefix. Gives its address with the prefix. */
export async function startPrefixProxy(target: string, prefix: string): Promise<string> {
  const proxy = createServer((incoming, outgoing) => {
    const path = incoming.url ?? '/'
    if (!path.startsWith(`${prefix}/`)) return void outgoing.writeHead(404).end()
    const { method, headers } = incoming
    const passed = httpRequest(target + path.slice(prefix.length), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(outgoing)
    })
    incoming.pipe(passed)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  closeAfterTest(async () => {
    proxy.close()
    proxy.closeAllConnections()
    await once(proxy, 'close')
  })
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}${prefix}`
}
