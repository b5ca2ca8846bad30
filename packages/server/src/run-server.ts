import { CLOSE_MARGIN_MS, listen } from '@bureau/runtime'
import { createApp } from './app.ts'
import { loadConfig } from './config.ts'
import { callersOf } from './http/callers.ts'
import type { Logger } from '@bureau/runtime'
import { drainMsOf, type ServerOptions } from './options.ts'

export type RunningServer = {
  /** Where the server answers, e.g. `http://127.0.0.1:8000`. */
  readonly url: string
  /** Stops accepting, lets open streams finish, and closes. */
  readonly close: () => Promise<void>
}

/**
 * Serves agencies and tools over HTTP until the process is asked to stop.
 *
 * @throws ConfigError options or environment are not valid.
 */
export async function runServer(options: ServerOptions): Promise<RunningServer> {
  const config = loadConfig()
  const app = await createApp(options, config)
  const { areKnown, host } = callersOf(options, config)
  if (!areKnown && options.host === undefined) app.log.warn(LISTENS_HERE)
  const url = await listen(app, {
    host,
    port: options.port ?? 8000,
    closeMs: drainMsOf(options) + CLOSE_MARGIN_MS,
    log: app.log as Logger,
  })
  return { url, close: () => app.close() }
}

const LISTENS_HERE =
  'without authentication only this machine is answered: the server listens on 127.0.0.1 (`host` changes that)'
