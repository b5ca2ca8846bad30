import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** A load balancer of the plainest kind: each connection goes to the next server, or the one after it if that refuses. */
export class RoundRobinProxy {
  readonly url: string
  readonly #server: Server
  /** The addresses of the servers, at this moment. */
  readonly #targets: () => readonly string[]
  readonly #clients = new Set<Socket>()
  readonly #sentAt = new Map<string, number>()
  #turn = 0

  private constructor(server: Server, targets: () => readonly string[]) {
    this.#server = server
    this.#targets = targets
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    server.on('connection', (client: Socket) => this.#accept(client))
  }

  static async start(targets: () => readonly string[]): Promise<RoundRobinProxy> {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new RoundRobinProxy(server, targets)
  }

  /** When a server sent its last byte to anybody, by `performance.now()`; 0: never. */
  lastSentAt(target: string): number {
    return this.#sentAt.get(target) ?? 0
  }

  /** Breaks every connection; new ones are accepted. */
  breakAll(): void {
    for (const client of this.#clients) client.destroy()
  }

  close(): void {
    this.breakAll()
    this.#server.close()
  }

  #accept(client: Socket): void {
    this.#clients.add(client)
    client.on('error', () => {})
    client.once('close', () => this.#clients.delete(client))
    const targets = this.#targets()
    this.#turn++
    this.#forward(
      client,
      targets.map((_, index) => targets[(this.#turn + index) % targets.length]!),
    )
  }

  #forward(client: Socket, [target, ...others]: readonly string[]): void {
    if (target === undefined) return void client.destroy()
    const { hostname, port } = new URL(target)
    const upstream = connect({ host: hostname, port: Number(port), noDelay: true })
    const tryNext = (): void => this.#forward(client, others)
    upstream.once('error', tryNext)
    upstream.once('connect', () => {
      upstream.off('error', tryNext).on('error', () => client.destroy())
      upstream.on('data', () => this.#sentAt.set(target, performance.now()))
      client.once('close', () => upstream.destroy())
      upstream.once('close', () => client.destroy())
      client.pipe(upstream).pipe(client)
    })
  }
}
