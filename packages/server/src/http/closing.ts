import type { FastifyInstance } from 'fastify'
import { ServiceError } from '@bureau/protocol'
import type { RunRegistry } from '@bureau/runtime'

type Closing = {
  readonly runs: Pick<RunRegistry, 'cancelAll'>
  /** How long runs may go on. What is cancelled then ends its stream like any other, with what there is. */
  readonly drainMs: number
}

/** While a server closes it takes no more requests, except those that cancel a run, and lets its runs finish. */
export function finishRunsBeforeClosing(app: FastifyInstance, { runs, drainMs }: Closing): void {
  let closing = false
  app.drains.push(async () => {
    closing = true
    const late = setTimeout(() => runs.cancelAll(), drainMs).unref()
    app.server.once('close', () => clearTimeout(late))
  })
  app.addHook('onRequest', async ({ routeOptions }) => {
    if (!closing || routeOptions.url?.endsWith('/cancel_response_stream')) return
    throw new ServiceError('server_draining', { headers: { connection: 'close' } })
  })
}
