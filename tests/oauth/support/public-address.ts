import { startHttpServer } from '../../support/http-server.ts'

export type PublicAddress = {
  /** What providers send browsers back to. */
  readonly callbackUrl: string
  /** Where requests go from now on, e.g. `http://127.0.0.1:8000`. */
  forwardTo(url: string): void
}

/** A reverse proxy before the server: its address is known before the server has one. */
export async function startPublicAddress(): Promise<PublicAddress> {
  let target = ''
  const address = await startHttpServer((request, response) => {
    const headers = { ...(request.headers as Record<string, string>) }
    delete headers['connection']
    fetch(target + request.url, { headers, method: request.method ?? 'GET', redirect: 'manual' }).then(
      async (answer) => {
        const names = [
          'content-type',
          'content-security-policy',
          'cache-control',
          'location',
          'referrer-policy',
          'set-cookie',
          'x-content-type-options',
        ]
        for (const name of names) if (answer.headers.has(name)) response.setHeader(name, answer.headers.get(name)!)
        response.writeHead(answer.status).end(await answer.text())
      },
      () => response.writeHead(502).end(),
    )
  })
  return { callbackUrl: `${address}/auth/callback`, forwardTo: (url) => void (target = url) }
}
