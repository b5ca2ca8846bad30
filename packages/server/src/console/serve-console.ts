import { consoleRoutes } from '@bureau/runtime'
import type { FastifyInstance } from 'fastify'
import type { ServerConfig } from '../config.ts'
import type { Callers } from '../http/callers.ts'
import type { ServerOptions } from '../options.ts'
import { RecentRuns } from './recent-runs.ts'

type ConsoleParts = {
  readonly options: ServerOptions
  readonly config: ServerConfig
  readonly callers: Callers
  readonly version: string
}

/** Whether operators look at this server: whoever authenticates with `authenticate` is one of the users. */
export const servesOperators = (options: ServerOptions, config: ServerConfig): boolean =>
  isServed(options, config) && !options.authenticate

const isServed = (options: ServerOptions, config: ServerConfig): boolean => options.console ?? config.console

/** Serves the console, unless that is switched off. */
export function serveConsole(app: FastifyInstance, { options, config, callers, version }: ConsoleParts): void {
  if (!isServed(options, config)) return
  const agencies = !callers.areKnown ? 'open' : 'token'
  consoleRoutes(app, { open: true }, { version, agencies, platform: false })
}

/** What records runs for the console; undefined where nobody could look at them, or nobody wants to. */
export function recentRunsOf(options: ServerOptions, config: ServerConfig): RecentRuns | undefined {
  if (!servesOperators(options, config)) return undefined
  if (options.agencies === undefined || Object.keys(options.agencies).length === 0) return undefined
  if (!(options.keepRecentRuns ?? config.keepRecentRuns)) return undefined
  return new RecentRuns({ showsPrompts: options.exposeInstructions ?? false })
}
