import { type ApiKey, type IssuedApiKey, type Owner, StartError } from '@bureau/protocol'
import { CommandError } from './command-error.ts'
import { withPlatform } from './with-platform.ts'

type Page<Item> = { readonly items: readonly Item[]; readonly next: unknown }

/** What an operator does, at the records or at a server that has them. */
export type Operating = {
  createOwner(owner: { name: string; publishesAgencies: boolean }): Promise<Owner>
  listOwners(page: PageRequest): Promise<Page<Owner>>
  changeOwner(ownerId: string, changes: { status: 'active' | 'disabled' }): Promise<Owner>
  createKey(ownerId: string, key: NewKey): Promise<IssuedApiKey>
  listKeys(ownerId: string, page: PageRequest): Promise<Page<ApiKey>>
  revokeKey(ownerId: string, keyId: string): Promise<ApiKey>
}

type PageRequest = { readonly limit: number; readonly after: unknown }
type NewKey = { readonly name: string; readonly scopes?: readonly string[]; readonly expiresAt?: Date | null }

type Place = {
  readonly url: string | undefined
  readonly key: string | undefined
  readonly makesRecords?: boolean
}

/** All that a list holds, page by page. */
export async function listAll<Item>(list: (page: PageRequest) => Promise<Page<Item>>): Promise<Item[]> {
  const items: Item[] = []
  let after: unknown = null
  do {
    const page = await list({ limit: 100, after })
    items.push(...page.items)
    after = page.next
  } while (after !== null)
  return items
}

/**
 * Does the operator's work: at the server at `url`, with `PLATFORM_OPERATOR_KEY`, or else at the records of BUREAU_DATA or
 * DATABASE_URL, which must be there unless `makesRecords`.
 *
 * @throws CommandError it cannot be done.
 */
export async function operate<Result>(
  { url, key, makesRecords = false }: Place,
  work: (operator: Operating) => Promise<Result>,
): Promise<Result> {
  if (url !== undefined) return work(remoteOperator(url, key))
  const { operator, close } = await withPlatform(async () =>
    (await import('@bureau/platform')).openOperator({ mustExist: !makesRecords }),
  ).catch((error: unknown) => {
    // Neither stopping the server nor another folder is wanted here.
    const [, inUse] =
      error instanceof StartError ? (/^(.* is in use by another process\.)/.exec(error.message) ?? []) : []
    throw inUse === undefined ? error : new StartError(`${inUse} Reach it with --url.`, { cause: error })
  })
  try {
    return await work(operator)
  } catch (error) {
    throw isRefusal(error) ? new CommandError(error.message, { cause: error }) : error
  } finally {
    await close()
  }
}

function isRefusal(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ServiceError'
}

function remoteOperator(url: string, key: string | undefined): Operating {
  if (key === undefined) throw new CommandError('PLATFORM_OPERATOR_KEY: set the key that the server has.')
  const call = async <Answer>(method: string, path: string, body?: object): Promise<Answer> => {
    const response = await fetch(`${url}/v1/admin/owners${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    }).catch((cause: unknown) => {
      throw new CommandError(`No server answers at ${url}.`, { cause })
    })
    const answer = (await response.json().catch(() => undefined)) as (Answer & { readonly error?: string }) | undefined
    if (response.status === 401) throw new CommandError('PLATFORM_OPERATOR_KEY: the server does not take this key.')
    if (!response.ok) throw new CommandError(answer?.error ?? `The server answered with ${response.status}.`)
    if (answer === undefined) throw new CommandError(`${url} is no platform.`)
    return answer
  }
  const list = async <Item>(path: string, { limit, after }: PageRequest): Promise<Page<Item>> => {
    const query = new URLSearchParams({ limit: String(limit), ...(typeof after === 'string' && { cursor: after }) })
    const { data, nextCursor } = await call<{ data: Item[]; nextCursor: string | null }>(
      'GET',
      `${path}?${query.toString()}`,
    )
    return { items: data, next: nextCursor }
  }
  const one = (ownerId: string): string => `/${encodeURIComponent(ownerId)}`
  return {
    createOwner: (owner) => call('POST', '', owner),
    listOwners: (page) => list('', page),
    changeOwner: (ownerId, changes) => call('PATCH', one(ownerId), changes),
    createKey: (ownerId, newKey) => call('POST', `${one(ownerId)}/api_keys`, newKey),
    listKeys: (ownerId, page) => list(`${one(ownerId)}/api_keys`, page),
    revokeKey: (ownerId, keyId) => call('DELETE', `${one(ownerId)}/api_keys/${encodeURIComponent(keyId)}`),
  }
}
