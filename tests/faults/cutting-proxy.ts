import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { MARK } from './fault.ts'

/** When a marked transaction loses its connection: before its COMMIT arrives, or before the answer to it does. */
export type Cut = 'before COMMIT' | 'before the answer to COMMIT'

const USUAL_PORTS: Readonly<Record<string, number>> = { 'postgres:': 5432, 'postgresql:': 5432, 'redis:': 6379 }

/** A way to a server that can be cut, as a whole or at the COMMIT of one marked transaction of PostgreSQL. */
export class CuttingProxy {
  /** The URL of the server, by way of this proxy. */
  readonly url: string
  readonly #server: Server
  readonly #target: { readonly host: string; readonly port: number }
  readonly #pairs = new Set<readonly [Socket, Socket]>()
  #isOpen = true
  #swallows = false
  #cut: Cut | undefined
  #shutAfterCut = false
  #onCut: () => void = () => {}

  private constructor(server: Server, target: string) {
    const { protocol, hostname, port } = new URL(target)
    this.#server = server
    this.#target = { host: hostname, port: Number(port || USUAL_PORTS[protocol]) }
    this.url = this.through(target)
    server.on('connection', (client: Socket) => this.#connect(client))
  }

  static async start(target: string): Promise<CuttingProxy> {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new CuttingProxy(server, target)
  }

  /** Another URL of the server, by way of this proxy. */
  through(url: string): string {
    return url.replace(new URL(url).host, `127.0.0.1:${(this.#server.address() as AddressInfo).port}`)
  }

  /** Cuts the connection of the next marked transaction; with `shut`, new ones are refused from then on. */
  cutNextMarked(cut: Cut, { shut }: { readonly shut: boolean }): Promise<void> {
    this.#cut = cut
    this.#shutAfterCut = shut
    return new Promise((resolve) => (this.#onCut = resolve))
  }

  /** Whether a marked transaction is still to come. */
  get isWaiting(): boolean {
    return this.#cut !== undefined
  }

  /** Breaks every connection; new ones are accepted. */
  breakAll(): void {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy()
    this.#pairs.clear()
  }

  shut(): void {
    this.#isOpen = false
    this.breakAll()
  }

  /** Nothing arrives any more at either end, and nobody learns of it: a cable was pulled. */
  swallow(): void {
    this.#swallows = true
    for (const pair of this.#pairs) for (const socket of pair) socket.pause()
  }

  /** What the server notices of a lost machine by its keepalives: it ends these sessions. */
  breakUpstream(): void {
    for (const [, upstream] of this.#pairs) upstream.destroy()
  }

  open(): void {
    this.#isOpen = true
    this.#cut = undefined
    if (this.#swallows) this.breakAll()
    this.#swallows = false
  }

  close(): void {
    this.shut()
    this.#server.close()
  }

  #connect(client: Socket): void {
    client.on('error', () => {})
    if (!this.#isOpen) return void client.destroy()
    if (this.#swallows) return void this.#pairs.add([client.pause(), client])
    const upstream = connect(this.#target.port, this.#target.host).on('error', () => {})
    const pair = [client, upstream] as const
    this.#pairs.add(pair)
    for (const socket of pair) {
      socket.setNoDelay(true)
      socket.once('close', () => {
        if (this.#swallows) return
        this.#pairs.delete(pair)
        for (const each of pair) each.destroy()
      })
    }
    let isMarked = false
    client.on('data', (bytes: Buffer) => {
      isMarked ||= this.#cut !== undefined && bytes.includes(MARK)
      if (isMarked && bytes.includes('COMMIT\0')) return this.#cutAtCommit(pair, bytes)
      upstream.write(bytes)
    })
    upstream.pipe(client)
  }

  #cutAtCommit([client, upstream]: readonly [Socket, Socket], bytes: Buffer): void {
    const cut = this.#cut
    this.#cut = undefined
    const finish = (): void => {
      client.destroy()
      upstream.destroy()
      if (this.#shutAfterCut) this.shut()
      this.#onCut()
    }
    if (cut === 'before COMMIT') return finish()
    upstream.unpipe(client)
    upstream.once('data', finish) // it has committed, and nobody will hear of it
    upstream.resume()
    upstream.write(bytes)
  }
}
