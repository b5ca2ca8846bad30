import type { Agency, FunctionTool } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import { checkServerOptions } from './check-options.ts'
import { readAgencies, type ServerOptions } from './options.ts'
import { readTools } from './tools/read-tools.ts'

type Served = { readonly agencies: ReadonlyMap<string, Agency>; readonly tools: readonly FunctionTool[] }

/**
 * What a server with these options serves.
 *
 * @throws ConfigError the options are not valid, or there is nothing to serve.
 */
export function readServed(options: ServerOptions): Served {
  checkServerOptions(options)
  const agencies = readAgencies(options)
  const tools = readTools(options.tools ?? [])
  if (agencies.size === 0 && tools.length === 0) throw new ConfigError('Nothing to serve: give agencies or tools.')
  return { agencies, tools }
}
