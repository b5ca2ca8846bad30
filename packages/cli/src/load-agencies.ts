import { existsSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { Agency } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import type { ServerOptions } from '@bureau/server'

export type AgencyModule = Pick<ServerOptions, 'tools' | 'oauthUserId'> & {
  readonly agencies?: Readonly<Record<string, Agency>>
}

export const DEFAULT_FILES = ['agency.ts', 'agency.js', 'agency.mjs']

/**
 * Loads the agencies that a module exports: each exported `Agency` under the name of its export, `tools` as tools, and
 * `oauthUserId` for those whose users sign in to protected tool servers.
 *
 * @throws ConfigError there is no such file, it is not one that Node can load, or it exports neither.
 */
export async function loadAgencies(file: string | undefined): Promise<AgencyModule> {
  const found = file ?? DEFAULT_FILES.find((name) => existsSync(name))
  if (found === undefined)
    throw new ConfigError(`Name a file that exports an Agency, or add one of: ${DEFAULT_FILES.join(', ')}.`)
  const location = path.resolve(found)
  if (!existsSync(location)) throw new ConfigError(`There is no file ${found}.`)
  const module = await importModule(location).catch((error: unknown) => {
    throw importError(error, found)
  })
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

const importModule = (file: string): Promise<Record<string, unknown>> => import(pathToFileURL(file).href)

/** What Node says of folders, of files of other kinds, and of JSON. */
const NO_MODULE: ReadonlySet<string | undefined> = new Set([
  'ERR_UNSUPPORTED_DIR_IMPORT',
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_IMPORT_ATTRIBUTE_MISSING',
])

/** What is wrong with the text of a module, without the steps in which Node found it. What a module throws is left as it is. */
function importError(error: unknown, file: string): unknown {
  if (!(error instanceof Error)) return error
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ERR_MODULE_NOT_FOUND')
    return new ConfigError(`${file} cannot be loaded: ${error.message}.`, { cause: error })
  if (NO_MODULE.has(code))
    return new ConfigError(`${file} is no module. Name one that exports an Agency, such as agency.ts.`, {
      cause: error,
    })
  if (!(error instanceof SyntaxError)) return error
  // The place and the line, where Node says them, are above the message.
  const [place = ''] = (error.stack ?? '').split(/^SyntaxError/m)
  const advice =
    code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX'
      ? ' Node only leaves types out: write an object instead of an enum, and a plain constructor.'
      : ''
  return new ConfigError(`${file} cannot be loaded: ${error.message}.${advice}\n${place}`.trimEnd(), { cause: error })
}
