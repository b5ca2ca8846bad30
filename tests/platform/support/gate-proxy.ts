import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { closeAfterTest } from '../../support/test-server.ts'

export type GateProxy = { readonly port: number; shut(): void; open(): void }

/** A way to a server that can be closed: open connections break, new ones are refused. */
export async function startGateProxy(target: { host: string; port: number }): Promise<GateProxy> {
  const sockets = new Set<Socket>()
  let isOpen = true
  const server = createServer((client) => {
    client.on('error', () => {})
    if (!isOpen) return void client.destroy()
    const upstream = connect(target.port, target.host).on('error', () => {})
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.once('close', () => [client, upstream].forEach((each) => each.destroy()))
    }
    client.pipe(upstream).pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const shut = (): void => {
    isOpen = false
    for (const socket of sockets) socket.destroy()
    sockets.clear()
  }
  closeAfterTest(async () => {
    shut()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, shut, open: () => void (isOpen = true) }
}
