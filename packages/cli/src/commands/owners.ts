import { ApiKeyScope } from '@bureau/protocol'
import { Command, InvalidArgumentError } from 'commander'
import { listAll, operate, type Operating } from '../operator.ts'
import { serverAddress } from '../server-address.ts'
import { plain } from '../terminal-text.ts'

const MAX_NAME = 100

type Flags = { readonly url?: string }

const withUrl = (command: Command): Command =>
  command.option(
    '--url <address>',
    'a running platform, with PLATFORM_OPERATOR_KEY (default: the records here)',
    serverAddress,
  )

const placeOf = ({ url }: Flags) => ({ url, key: process.env['PLATFORM_OPERATOR_KEY'] || undefined })

const work = <Result>(flags: Flags, doing: (operator: Operating) => Promise<Result>): Promise<Result> =>
  operate(placeOf(flags), doing)

/** As the platform's routes take it: the records take any. */
function nameOf(text: string): string {
  const name = text.trim()
  if (name.length >= 1 && name.length <= MAX_NAME) return name
  throw new InvalidArgumentError(`Must have 1 to ${MAX_NAME} characters.`)
}

const create = withUrl(new Command('create'))
  .description('Create an owner. It gets an integration of every agency when the server starts, or at once with --url.')
  .argument('<name>', 'what the owner is called', nameOf)
  .option('--no-agencies', 'it gets no integration by itself')
  .action(async (name: string, flags: Flags & { readonly agencies: boolean }) => {
    const { id } = await operate({ ...placeOf(flags), makesRecords: true }, (operator) =>
      operator.createOwner({ name, publishesAgencies: flags.agencies }),
    )
    const place = flags.url === undefined ? '' : ` --url ${flags.url}`
    console.error(`Created ${name}. It has no API key yet: bureau keys create ${id} <name>${place}`)
    console.log(id)
  })

const list = withUrl(new Command('list'))
  .description('List owners, newest first.')
  .action(async (flags: Flags) => {
    const items = await work(flags, (operator) => listAll((page) => operator.listOwners(page)))
    printTable(items.map(({ id, status, createdAt, name }) => [id, status, createdAt.slice(0, 10), name]))
  })

const disable = withUrl(new Command('disable'))
  .description('Refuse all API keys of an owner, within five seconds. Runs that are under way go on.')
  .argument('<owner>', 'the id of the owner')
  .action(async (id: string, flags: Flags) => {
    const { name } = await work(flags, (operator) => operator.changeOwner(id, { status: 'disabled' }))
    console.error(`Disabled ${name}. "bureau owners enable" takes it back.`)
  })

const enable = withUrl(new Command('enable'))
  .description('Accept the API keys of a disabled owner again.')
  .argument('<owner>', 'the id of the owner')
  .action(async (id: string, flags: Flags) => {
    const { name } = await work(flags, (operator) => operator.changeOwner(id, { status: 'active' }))
    console.error(`Enabled ${name}.`)
  })

/** `bureau owners`: the tenants of a platform. */
export const ownersCommand = new Command('owners')
  .description('Create, list, disable and enable the owners of a platform.')
  .addCommand(create)
  .addCommand(list)
  .addCommand(disable)
  .addCommand(enable)

const ALL_SCOPES = ApiKeyScope.options.join(', ')
const MAX_DAYS = 36_500

type KeyFlags = Flags & { readonly expiresInDays?: number; readonly scopes?: ApiKeyScope[] }

function scopesOf(list: string): ApiKeyScope[] {
  const names = [...new Set(list.split(',').map((name) => name.trim()))]
  return names.map((name) => {
    const scope = ApiKeyScope.options.find((known) => known === name)
    if (scope === undefined) throw new InvalidArgumentError(`There is no scope "${name}". Scopes: ${ALL_SCOPES}.`)
    return scope
  })
}

function numberOfDays(text: string): number {
  const days = Number(text)
  if (text.trim() !== '' && days > 0 && days <= MAX_DAYS) return days
  throw new InvalidArgumentError(`Must be a number of days above 0, at most ${MAX_DAYS}.`)
}

const createKey = withUrl(new Command('create'))
  .description('Create an API key of an owner, also when all of them are lost. Its token is shown this once.')
  .argument('<owner>', 'the id of the owner')
  .argument('<name>', 'what the key is for, e.g. "billing worker"', nameOf)
  .option('--expires-in-days <days>', 'refuse the key after so many days (default: never)', numberOfDays)
  .option('--scopes <list>', `what the key may do, by commas (default: *, everything):\n${ALL_SCOPES}`, scopesOf)
  .addHelpText('after', '\nExample:\n  $ bureau keys create own_… "billing worker" --scopes usage:read > key.txt')
  .action(async (owner: string, name: string, flags: KeyFlags) => {
    const { expiresInDays: days, scopes } = flags
    const expiresAt = days === undefined ? null : new Date(Date.now() + days * 86_400_000)
    const key = { name, expiresAt, ...(scopes && { scopes }) }
    const { id, token } = await work(flags, (operator) => operator.createKey(owner, key))
    console.error(`Created ${id}. Keep the token: it is not shown again.`)
    console.log(token)
  })

const listKeys = withUrl(new Command('list'))
  .description('List the API keys of an owner, newest first, without their tokens.')
  .argument('<owner>', 'the id of the owner')
  .action(async (owner: string, flags: Flags) => {
    const items = await work(flags, (operator) => listAll((page) => operator.listKeys(owner, page)))
    printTable(
      items.map(({ id, hint, revokedAt, expiresAt, name }) => {
        const state = revokedAt !== null ? 'revoked' : expiresAt !== null ? `until ${expiresAt.slice(0, 10)}` : 'valid'
        return [id, `…${hint}`, state, name]
      }),
    )
  })

const revokeKey = withUrl(new Command('revoke'))
  .description('Refuse an API key from now on. Runs that it began go on.')
  .argument('<owner>', 'the id of the owner')
  .argument('<key>', 'the id of the key')
  .action(async (owner: string, key: string, flags: Flags) => {
    const { name } = await work(flags, (operator) => operator.revokeKey(owner, key))
    console.error(`Revoked ${name}.`)
  })

/** `bureau keys`: the API keys of an owner, for the operator. */
export const keysCommand = new Command('keys')
  .description('Create, list and revoke the API keys of an owner.')
  .addCommand(createKey)
  .addCommand(listKeys)
  .addCommand(revokeKey)

/** Prints rows in columns; the last one is as long as it is. Control characters of names are left out. */
function printTable(rows: readonly (readonly string[])[]): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  for (const row of rows) {
    const cells = row.map((cell, column) => plain(cell).padEnd(widths[column] ?? 0))
    console.log(cells.join('  ').trimEnd())
  }
}
