import { existsSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { Agency, Agent, otherCopy, Tool } from '@bureau/framework'
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
 * @throws ConfigError there is no such file, it is not one that Node can load, it throws, it exports neither, or its
 *   `tools` are not a list.
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
  for (const [name, value] of Object.entries(module)) {
    const problem = otherCopy(value)
    if (problem !== undefined) throw new ConfigError(`${found}: "${name}" ${problem}.`)
  }
  const agencies = Object.entries(module).filter((entry): entry is [string, Agency] => entry[1] instanceof Agency)
  const { tools, oauthUserId } = module
  if (!(tools === undefined || Array.isArray(tools) || tools instanceof Agency))
    throw new ConfigError(`${found}: "tools" must be a list of tools.`)
  if (agencies.length === 0 && !Array.isArray(tools)) {
    const [advice = NOTHING] = Object.entries(module).flatMap((entry) => adviceOn(entry) ?? [])
    throw new ConfigError(`${found} exports no Agency and no "tools". ${advice}`)
  }
  return {
    agencies: Object.fromEntries(agencies.map(([name, agency]) => [name === 'default' ? 'agency' : name, agency])),
    ...(Array.isArray(tools) && { tools: tools as NonNullable<ServerOptions['tools']> }),
    ...(typeof oauthUserId === 'function' && { oauthUserId: oauthUserId as NonNullable<ServerOptions['oauthUserId']> }),
  }
}

const NOTHING = 'Write: export const support = new Agency({ … })'

/** What to write instead of an export that was probably meant as an agency. */
function adviceOn([name, value]: [string, unknown]): string | undefined {
  const known = name === 'default' ? { it: 'The default export', its: '…' } : { it: `"${name}"`, its: name }
  if (value instanceof Agent)
    return `${known.it} is an Agent. Write: export const support = new Agency({ entryPoint: ${known.its} })`
  if (isTool(value)) return `${known.it} is a tool. Write: export const tools = [${known.its}]`
  if (value instanceof Promise) return `${known.it} is a Promise. Write: export const ${known.its} = await …`
  if (typeof value === 'function')
    return `${known.it} is a function. Export what it returns: export const support = await ${known.its}()`
  return undefined
}

const isTool = (value: unknown): boolean =>
  typeof value === 'function'
    ? value.prototype instanceof Tool
    : typeof value === 'object' && value !== null && 'type' in value && value.type === 'function'

const importModule = (file: string): Promise<Record<string, unknown>> => {
  // Node says then that our own import has not ended.
  const stuck = (code: number): void => {
    if (code === UNSETTLED)
      console.error(`${path.relative('', file)} never ends: what it waits for at the top does not come.`)
  }
  process.once('exit', stuck)
  return import(pathToFileURL(file).href).finally(() => process.off('exit', stuck))
}

/** With which Node ends when a module waits and nothing is left to do. */
const UNSETTLED = 13

/** What Node says of folders, of files of other kinds, and of JSON. */
const NO_MODULE: ReadonlySet<string | undefined> = new Set([
  'ERR_UNSUPPORTED_DIR_IMPORT',
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_IMPORT_ATTRIBUTE_MISSING',
])

/** What is wrong with a module and where, without the steps in which Node and Bureau found it. */
function importError(error: unknown, file: string): ConfigError {
  const failed = (why: string): ConfigError =>
    new ConfigError(`${file} cannot be loaded: ${fromHere(why)}`.trimEnd(), { cause: error })
  if (!(error instanceof Error)) return failed(`it throws ${inspect(error)}`)
  const { code, message } = error as NodeJS.ErrnoException
  const steps = stepsOf(error)
  if (error instanceof ConfigError) {
    const place = steps.map(placeOf).find((each) => each !== undefined) ?? file
    return new ConfigError(message.replaceAll(/^/gm, `${fromHere(place)}: `), { cause: error })
  }
  if (NO_MODULE.has(code))
    return new ConfigError(`${file} is no module. Name one that exports an Agency, such as agency.ts.`, {
      cause: error,
    })
  if (steps.length > 0) return failed([`${error.name}: ${message}${adviceAbout(error)}`, ...steps].join('\n'))
  // The place and the line, where Node says them, are above the message.
  const [where = ''] = (error.stack ?? '').split(/^\w*Error\b/m)
  return failed(`${message.replace(/\.$/, '')}.${adviceAbout(error)}\n${where}`)
}

/** Paths as they are from the folder in which the command runs. */
const fromHere = (text: string): string =>
  text.replaceAll(pathToFileURL('./').href, '').replaceAll(path.resolve() + path.sep, '')

/** The steps of the module and of what it uses, up to those in which Node loads it. */
function stepsOf({ stack = '' }: Error): string[] {
  const steps = stack.split('\n').filter((line) => line.startsWith('    at '))
  const loading = steps.findIndex((step) => step.includes('node:internal/modules/'))
  return (loading < 0 ? steps : steps.slice(0, loading)).filter((step) => step.includes('file:'))
}

const FRAMEWORK = new URL('..', import.meta.resolve('@bureau/framework')).href

/** The file and the line of a step; undefined: it is not in the user's own code. */
function placeOf(step: string): string | undefined {
  const [, place] = /(file:[^()]+:\d+):\d+\)?$/.exec(step) ?? []
  return place?.includes('/node_modules/') || place?.startsWith(FRAMEWORK) ? undefined : place
}

function adviceAbout(error: Error): string {
  const { code, message } = error as NodeJS.ErrnoException
  const [, name] = /^Cannot find package '(.+?)'/.exec(message) ?? []
  if (name !== undefined) return ` Check the name, or install it: npm install ${name}`
  const [, file] = /^Cannot find module '(.+?)'/.exec(message) ?? []
  const near = file && [`${file}.ts`, `${file}.js`, file.replace(/\.js$/, '.ts'), `${file}/index.ts`].find(existsSync)
  if (near) return ` There is ${near}: an import has the whole name of its file.`
  if (/does not provide an export/.test(message)) return ' Check the name; a type needs "import type".'
  if (/before initialization/.test(message))
    return '. Agents that know each other are connected by the flows of their agency: flows: [[a, b, "handoff"], [b, a, "handoff"]]'
  return code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX'
    ? ' Node only leaves types out: write an object instead of an enum, and a plain constructor.'
    : ''
}
