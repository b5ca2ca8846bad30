import type { FastifyInstance } from 'fastify'
import type { Logger } from '../log.ts'

/**
 * Connections that wait to be accepted. After a restart all streaming clients come back in one moment; those beyond the
 * system's usual 511 would be reset. The system may allow less.
 */
const MAX_WAITING_CONNECTIONS = 4_096

const STOP_SIGNALS = ['SIGTERM', 'SIGINT'] as const

export type ListenOptions = {
  readonly host: string
  readonly port: number
  /** Longest time that open streams may take to finish after a stop signal, in milliseconds. */
  readonly drainMs: number
  readonly log: Logger
}

/**
 * Listens; on SIGTERM or SIGINT stops accepting, lets streams finish, and closes. A second signal closes at once.
 *
 * @returns The address that is served.
 */
export async function listen(app: FastifyInstance, options: ListenOptions): Promise<string> {
  let stopping = false
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) return void process.exit(1)
    stopping = true
    options.log.info({ signal, drainMs: options.drainMs }, 'stopping: open streams may finish')
    const hurry = setTimeout(() => {
      options.log.warn('streams still open after the drain time are cut')
      app.server.closeAllConnections()
    }, options.drainMs)
    app
      .close()
      .then(
        () => {
          clearTimeout(hurry)
          process.exitCode = 0
        },
        (error: unknown) => options.log.error({ err: error }, 'close failed'),
      )
      .finally(ignoreSignals)
  }
  const ignoreSignals = (): void => STOP_SIGNALS.forEach((signal) => process.off(signal, stop))
  for (const signal of STOP_SIGNALS) process.on(signal, stop)
  // While it stops, the agents SDK would exit as soon as it found itself the only one that listens for the signal.
  app.server.once('close', () => stopping || ignoreSignals())
  return app.listen({ host: options.host, port: options.port, backlog: MAX_WAITING_CONNECTIONS })
}
