import { once } from 'node:events'
import { createServer } from 'node:net'
import { StartError } from '@bureau/protocol'
import type { FastifyInstance } from 'fastify'
import type { Logger } from '../log.ts'

/**
 * Connections that wait to be accepted. After a restart all streaming clients come back in one moment; those beyond the
 * system's usual 511 would be reset. The system may allow less.
 */
const MAX_WAITING_CONNECTIONS = 4_096

/** How much later than its runs a server ends at the latest: what they ended with is still to be sent. */
export const CLOSE_MARGIN_MS = 10_000

const STOP_SIGNALS = ['SIGTERM', 'SIGINT'] as const

type ListenOptions = {
  readonly host: string
  readonly port: number
  /** When what is still open after a stop signal is cut, in milliseconds: later than everything was asked to end. */
  readonly closeMs: number
  readonly log: Logger
}

/**
 * Listens; on SIGTERM or SIGINT stops accepting, lets streams finish, and closes. A second signal closes at once. A promise that is
 * rejected and that nobody awaits is logged, where the program has no listener of its own: it would end the runs of all others.
 *
 * @returns The address that is served.
 * @throws StartError the address cannot be listened on; the app is closed then.
 */
export async function listen(app: FastifyInstance, options: ListenOptions): Promise<string> {
  let stopping = false
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) return void process.exit(1)
    stopping = true
    options.log.info({ signal, closeMs: options.closeMs }, 'stopping: open streams may finish')
    const hurry = setTimeout(() => {
      options.log.warn('what is still open is cut')
      app.server.closeAllConnections()
    }, options.closeMs)
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
  if (process.listenerCount('unhandledRejection') === 0) logUnhandledRejections(app, options.log)
  const { host, port } = options
  try {
    return await app.listen({ host, port, backlog: MAX_WAITING_CONNECTIONS })
  } catch (error) {
    ignoreSignals()
    await app.close()
    throw addressError(error, options)
  }
}

function logUnhandledRejections(app: FastifyInstance, log: Logger): void {
  const onRejection = (reason: unknown): void =>
    log.error({ err: reason }, 'a promise that nobody awaits was rejected: an await is missing, perhaps in a tool')
  process.on('unhandledRejection', onRejection)
  app.server.once('close', () => process.off('unhandledRejection', onRejection))
}

type Address = Pick<ListenOptions, 'host' | 'port'>

/** Whether a server could listen there now. @throws StartError it could not. */
export async function checkAddress(address: Address): Promise<void> {
  const server = createServer().listen({ host: address.host, port: address.port })
  await once(server, 'listening').catch((error: unknown) => {
    throw addressError(error, address)
  })
  server.close()
  await once(server, 'close')
}

function addressError(error: unknown, { host, port }: Address): unknown {
  const advice: Readonly<Record<string, string>> = {
    EADDRINUSE: `Port ${port} is taken: something else listens on ${host}:${port}. Stop it, or choose another with --port (in code: port).`,
    EACCES: `Port ${port} is not for this user: the system keeps it for others. Choose another with --port (in code: port).`,
    EADDRNOTAVAIL: `${host} is not an address of this machine. Choose another with --host.`,
    ENOTFOUND: `${host} is not a host name that leads to this machine. Choose another with --host.`,
  }
  const message = advice[(error as NodeJS.ErrnoException).code ?? '']
  return message === undefined ? error : new StartError(message, { cause: error })
}
