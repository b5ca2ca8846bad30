import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'

declare module 'fastify' {
  interface FastifyInstance {
    /** What ends when the server closes: each is called at once, and answers are still given until all have resolved. */
    readonly drains: (() => Promise<void>)[]
  }
}

/** On every answer: browsers do not guess types, so that no text of a caller's becomes a page. */
export const NO_SNIFFING = ['x-content-type-options', 'nosniff'] as const

/**
 * Puts the headers of every answer on it, and lets answers reach their clients before a closing server cuts connections.
 * Call it before anything else is added to the app.
 *
 * Node takes a connection for idle as soon as its answer is complete, though much of it may not have been sent yet, and
 * others stay open, idle, until they time out. So here nothing is cut before everything is sent, and then everything is
 * (`forceCloseConnections: true`).
 */
export function answerCompletely(app: FastifyInstance): void {
  const open = new Set<ServerResponse>()
  app.decorate('drains', [])
  app.addHook('onRequest', (request, reply, done) => {
    reply.header(...NO_SNIFFING)
    // A WebSocket is closed by whoever speaks through it.
    if (request.raw.headers.upgrade === undefined) {
      open.add(reply.raw)
      reply.raw.once('close', () => open.delete(reply.raw))
    }
    done()
  })
  app.addHook('preClose', async () => {
    await Promise.all(app.drains.map((drain) => drain()))
    while (open.size > 0) await Promise.all([...open].map((answer) => once(answer, 'close')))
  })
}
