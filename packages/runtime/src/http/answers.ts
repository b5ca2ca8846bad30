import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { BriefMap } from '../brief-map.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** What ends when the server closes: each is called at once, and answers are still given until all have resolved. */
    readonly drains: (() => Promise<void>)[]
  }
}

/** On every answer: browsers do not guess types, so that no text of a caller's becomes a page. */
export const NO_SNIFFING = ['x-content-type-options', 'nosniff'] as const

type OpenAnswer = { readonly request: IncomingMessage; readonly answer: ServerResponse }

/** How often a closing server looks for requests whose body is still on its way, in milliseconds. */
const CUT_EVERY_MS = 1_000

/**
 * Puts the headers of every answer on it, and lets answers reach their clients before a closing server cuts connections.
 * Call it before anything else is added to the app.
 *
 * Node takes a connection for idle as soon as its answer is complete, though much of it may not have been sent yet, and
 * others stay open, idle, until they time out. So here nothing is cut before everything is sent, and then everything is
 * (`forceCloseConnections: true`). A request that is still arriving has not begun: it would be refused, and its client may be
 * slow, so it is cut.
 */
export function answerCompletely(app: FastifyInstance): void {
  const open = new BriefMap<number, OpenAnswer>()
  let lastId = 0
  app.decorate('drains', [])
  app.addHook('onRequest', (request, reply, done) => {
    reply.header(...NO_SNIFFING)
    // A WebSocket is closed by whoever speaks through it.
    if (request.raw.headers.upgrade === undefined) {
      const id = ++lastId
      open.set(id, { request: request.raw, answer: reply.raw })
      reply.raw.once('close', () => open.delete(id))
    }
    done()
  })
  app.addHook('preClose', async () => {
    const cut = setInterval(() => {
      for (const { request } of open.values()) if (!request.complete) request.destroy()
    }, CUT_EVERY_MS)
    await Promise.all(app.drains.map((drain) => drain()))
    while (open.size > 0) await Promise.all(open.values().map(({ answer }) => once(answer, 'close')))
    clearInterval(cut)
  })
}
