import path from 'node:path'
import { parseArgs } from 'node:util'
import { MANAGERS, type PackageManager } from './package-managers.ts'

/** What cannot be done as it was asked; the message says what to do. */
export class CreateError extends Error {
  override readonly name = 'CreateError'
}

export const TEMPLATES = {
  minimal: 'one agent',
  handoffs: 'several agents, who message each other and hand over',
  tools: 'an agent with a tool and a tool server (MCP)',
  platform: 'many owners and consumers: chats, members, allowances, PostgreSQL',
  nextjs: 'an agency inside a Next.js application, with a chat page',
} as const

export const NEEDED_NODE = '24.11'

export type Template = keyof typeof TEMPLATES

/** What a project is made of. */
export type ProjectOptions = {
  /** Absolute. */
  readonly folder: string
  /** Of package.json. */
  readonly name: string
  readonly template: Template
  readonly packageManager: PackageManager
  readonly installs: boolean
  /** The version of Node.js that the project will meet. */
  readonly node: string
}

/** What was asked for; the rest has a default, or a person is asked. */
export type Asked = Partial<Pick<ProjectOptions, 'name' | 'template'>> &
  Pick<ProjectOptions, 'packageManager' | 'installs' | 'node'> & {
    readonly folder: string | undefined
    /** No question. */
    readonly yes: boolean
    /** Only a text is to be shown. */
    readonly shows: 'help' | 'version' | undefined
  }

/** @throws CreateError an option is not known, or its value is not fit. */
export function readArguments(args: readonly string[], userAgent: string | undefined): Asked {
  const { values, positionals } = parsed(args)
  if (positionals.length > 1)
    throw new CreateError(`Name one folder, not ${positionals.length}: ${positionals.join(', ')}.`)
  return {
    folder: positionals[0],
    ...(values.name !== undefined && { name: packageName(values.name) }),
    ...(values.template !== undefined && {
      template: oneOf(Object.keys(TEMPLATES) as Template[], values.template, '--template'),
    }),
    packageManager: managerOf(values['package-manager'], userAgent),
    installs: !values['no-install'],
    node: nodeOf(userAgent),
    yes: values.yes,
    shows: values.help ? 'help' : values.version ? 'version' : undefined,
  }
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        name: { type: 'string' },
        template: { type: 'string', short: 't' },
        'package-manager': { type: 'string' },
        'no-install': { type: 'boolean', default: false },
        yes: { type: 'boolean', short: 'y', default: false },
        help: { type: 'boolean', short: 'h', default: false },
        version: { type: 'boolean', short: 'v', default: false },
      },
    })
  } catch (error) {
    throw new CreateError(`${(error as Error).message.split('. ')[0]}. See --help.`)
  }
}

function oneOf<Value extends string>(values: readonly Value[], given: string, option: string): Value {
  const found = values.find((value) => value === given)
  if (found === undefined)
    throw new CreateError(`${option}: there is no "${given}". Choose one of: ${values.join(', ')}.`)
  return found
}

/** What runs this program says so. */
function managerOf(named: string | undefined, userAgent = 'npm'): PackageManager {
  const runs = MANAGERS.find((name) => userAgent.startsWith(name))
  const name = oneOf(MANAGERS, named ?? runs ?? 'npm', '--package-manager')
  return { name, version: name === runs ? /\/(\S+)/.exec(userAgent)?.[1] : undefined }
}

/** Node.js of the caller: a script of npm may run this program by another one, which a checkout brings. */
function nodeOf(userAgent = ''): string {
  return /\bnode\/v([\d.]+)/.exec(userAgent)?.[1] ?? process.versions.node
}

const PACKAGE_NAME = /^(?:@[a-z\d~-][a-z\d._~-]*\/)?[a-z\d~-][a-z\d._~-]{0,213}$/

/** @throws CreateError */
function packageName(name: string): string {
  if (PACKAGE_NAME.test(name)) return name
  throw new CreateError(`--name: "${name}" is not a package name. Use small letters, digits, "-", "_" and ".".`)
}

/** The name of a folder as a package name. */
export function nameOf(folder: string): string {
  const name = path
    .basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z\d._~-]+/g, '-')
    .replaceAll(/^[-._]+|-+$/g, '')
  return PACKAGE_NAME.test(name) ? name : 'my-agency'
}
