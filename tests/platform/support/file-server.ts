import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { IncomingMessage, RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TestPlatformOptions } from '@bureau/platform/testing'
import { afterAll } from 'vitest'

const PEM = new URL('../../../packages/platform/src/attachments/__fixtures__/files.example.com.pem', import.meta.url)
const pem = await readFile(PEM, 'utf8')

/** A platform that takes this machine for files.example.com, and everything else for what it is. */
export const FILE_ACCESS: NonNullable<TestPlatformOptions['access']> = {
  allow: ['files.example.com'],
  ca: pem,
  resolve: async () => [{ address: '127.0.0.1', family: 4 }],
}

type FileServer = { readonly url: string; readonly requests: IncomingMessage[] }

/** A file server on this machine that is called files.example.com, until the tests of the file have ended. */
export async function startFileServer(listener: RequestListener): Promise<FileServer> {
  const requests: IncomingMessage[] = []
  const server = createServer({ key: pem, cert: pem }, (request, response) => {
    requests.push(request)
    listener(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `https://files.example.com:${(server.address() as AddressInfo).port}`, requests }
}
