import { existsSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { Agency } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import type { ServerOptions } from '@bureau/server'

export type AgencyModule = Pick<ServerOptions, 'agencies' | 'tools' | 'oauthUserId'>

const DEFAULT_FILES = ['agency.ts', 'agency.js', 'agency.mjs']

/**
 * Loads the agencies that a module exports: each exported `Agency` under the name of its export, `tools` as tools, and
 * `oauthUserId` for those whose users sign in to protected tool servers.
 *
 * @throws ConfigError there is no such file, or it exports neither.
 */
export async function loadAgencies(file: string | undefined): Promise<AgencyModule> {
  const found = file ?? DEFAULT_FILES.find((name) => existsSync(name))
  if (found === undefined)
    throw new ConfigError(`Name a file that exports an Agency, or add one of: ${DEFAULT_FILES.join(', ')}.`)
  const location = path.resolve(found)
  if (!existsSync(location)) throw new ConfigError(`There is no file ${found}.`)
  const module = (await import(pathToFileURL(location).href)) as Record<string, unknown>
  const agencies = Object.entries(module).filter((entry): entry is [string, Agency] => entry[1] instanceof Agency)
  const { tools, oauthUserId } = module
  if (agencies.length === 0 && !Array.isArray(tools)) {
    throw new ConfigError(`${found} exports no Agency and no "tools". Write: export const support = new Agency({ … })`)
  }
  return {
    agencies: Object.fromEntries(agencies.map(([name, agency]) => [name === 'default' ? 'agency' : name, agency])),
    ...(Array.isArray(tools) && { tools: tools as NonNullable<ServerOptions['tools']> }),
    ...(typeof oauthUserId === 'function' && { oauthUserId: oauthUserId as NonNullable<ServerOptions['oauthUserId']> }),
  }
}
