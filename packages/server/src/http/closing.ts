import type { FastifyInstance } from 'fastify'
import { ServiceError } from '@bureau/protocol'
import type { KeptRuns, RunRegistry } from '@bureau/runtime'

type Closing = {
  readonly registry: Pick<RunRegistry, 'cancelAll'>
  /** Nobody may be reading them. */
  readonly kept: Pick<KeptRuns, 'drain'>
  /** How long runs may go on. What is cancelled then ends its stream like any other, with what there is. */
  readonly drainMs: number
}

/** What still concerns a run that lives. */
const TO_THE_END = /\/cancel_response_stream$|\/runs\/:run_id\/events$/

/** While a server closes it takes no more requests, except those that cancel or follow a run, and lets its runs finish. */
export function finishRunsBeforeClosing(app: FastifyInstance, { registry, kept, drainMs }: Closing): void {
  let closing = false
  app.drains.push(async () => {
    closing = true
    const late = setTimeout(() => registry.cancelAll(), drainMs).unref()
    app.server.once('close', () => clearTimeout(late))
    await kept.drain()
  })
  app.addHook('onRequest', ({ routeOptions }, _reply, done) => {
    const isRefused = closing && !TO_THE_END.test(routeOptions.url ?? '')
    done(isRefused ? new ServiceError('server_draining', { headers: { connection: 'close' } }) : undefined)
  })
}
