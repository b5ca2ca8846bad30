import { text as readText } from 'node:stream/consumers'
import type { IncomingHttpHeaders, RequestListener } from 'node:http'
import { vi } from 'vitest'
import type { Json } from './test-server.ts'

type Received = { readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: Json }

/** What listens where a server sends notifications: keeps what comes, and answers as the test says. */
export class Receiver {
  readonly received: Received[] = []
  /** The statuses of the next answers; then 204. */
  readonly answers: number[] = []

  readonly listener: RequestListener = (request, response) => {
    void readText(request).then((body) => {
      this.received.push({ path: request.url ?? '', headers: request.headers, body: JSON.parse(body) })
      const status = this.answers.shift() ?? 204
      response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end('ignored')
    })
  }

  at(path: string): readonly Received[] {
    return this.received.filter((each) => each.path === path)
  }

  /** Waits for so many at an address. */
  async until(path: string, count: number): Promise<readonly Received[]> {
    return vi.waitFor(
      () => {
        const all = this.at(path)
        if (all.length < count) throw new Error(`${all.length} of ${count} notifications have come to ${path}`)
        return all
      },
      { timeout: 20_000 },
    )
  }
}
