import { CommandError } from '../command-error.ts'

/**
 * The names of the agencies that a server serves, from its API description.
 *
 * @throws CommandError the server cannot be reached, or refuses.
 */
export async function listAgencies(url: string, token: string | undefined): Promise<string[]> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const response = await fetch(`${url}/openapi.json`, { headers }).catch(() => undefined)
  if (!response) throw new CommandError(`Nothing answers at ${url}. Start a server there, or name another by --url.`)
  if (response.status === 401)
    throw new CommandError(`${url} ${token === undefined ? 'wants a' : 'does not take this'} token: ${TOKEN}.`)
  if (!response.ok)
    throw new CommandError(`${url} answered with ${response.status}: ${await errorOf(response)}${hintFor(url)}`)
  const described = (await response.json().catch(() => null)) as { readonly paths?: object } | null
  if (typeof described?.paths !== 'object') throw new CommandError(`${url} is no server of agencies.${hintFor(url)}`)
  return Object.keys(described.paths).flatMap((path) => /^\/([^/]+)\/get_metadata$/.exec(path)?.[1] ?? [])
}

/** An agency's own address is easily taken for that of the server. */
function hintFor(url: string): string {
  const { origin, pathname } = new URL(url)
  return pathname === '/' ? '' : ` --url takes the address of the server, such as ${origin}, and --agency the agency.`
}

const TOKEN = 'give the one that the server has by --token or APP_TOKEN'

async function errorOf(response: Response): Promise<string> {
  const text = await response.text()
  try {
    return (JSON.parse(text) as { error?: string }).error ?? text
  } catch {
    return text.slice(0, 200)
  }
}
