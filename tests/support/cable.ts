import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { closeAfterTest } from './test-server.ts'

type Cable = {
  /** Where the server is reached through the cable. */
  readonly url: string
  /** Breaks all connections; nothing gets through until `mend`. */
  cut(): void
  mend(): void
}

/** A connection to a server that can be cut, as that of a laptop whose lid is shut. */
export async function startCable(target: string): Promise<Cable> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  let isCut = false
  const kept = (socket: Socket): Socket => {
    sockets.add(socket)
    return socket.on('close', () => sockets.delete(socket)).on('error', () => socket.destroy())
  }
  const server = createServer((near) => {
    if (isCut) return void near.destroy()
    const far = connect(Number(port), hostname)
    kept(near).pipe(kept(far)).pipe(near)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = (): void => {
    isCut = true
    for (const socket of sockets) socket.destroy()
  }
  closeAfterTest(async () => {
    cut()
    server.close()
    await once(server, 'close')
  })
  const { port: own } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${own}`, cut, mend: () => (isCut = false) }
}
