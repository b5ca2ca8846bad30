import { StartError } from '@bureau/protocol'
import { Client, type ClientConfig } from 'pg'
import { isPooled, withSettings } from './postgres-url.ts'
import { SETTINGS } from './transaction.ts'

const POOLER_ADVICE = 'The address of a pooler needs ?pgbouncer=true.'

/**
 * Opens a connection like those that requests get, with no time limit of the client's own.
 *
 * @throws StartError the server cannot be reached or refuses, or a pooler in between is not declared as one.
 */
export async function connectPostgres(url: string, limits: ClientConfig): Promise<Client> {
  const client = newClient({ ...limits, connectionString: isPooled(url) ? url : withSettings(url) })
  client.on('error', () => {}) // the query in progress fails by itself
  try {
    await client.connect()
    const dropped = isPooled(url) ? undefined : await findDroppedSettings(client)
    if (dropped !== undefined) throw new StartError(`DATABASE_URL: ${dropped}. ${POOLER_ADVICE}`)
    return client
  } catch (cause) {
    await client.end().catch(() => {})
    throw cause instanceof StartError ? cause : refusedBy(client, cause)
  }
}

/** @throws StartError a file that the URL names, such as `sslrootcert`, cannot be read. */
function newClient(config: ClientConfig): Client {
  try {
    return new Client(config)
  } catch (cause) {
    throw new StartError(`DATABASE_URL: ${(cause as Error).message}.`, { cause })
  }
}

/**
 * A pooler may drop the settings of a connection. It then also hands it to others between transactions, where statements that are
 * kept on it fail now and then, and locks are those of others.
 *
 * @returns What to say of it; undefined when the connection has the `SETTINGS` that its URL asks for.
 */
export async function findDroppedSettings(client: Client): Promise<string | undefined> {
  const { rows } = await client.query<{ lock_timeout: string }>('SHOW lock_timeout')
  if (rows[0]?.lock_timeout === SETTINGS['lock_timeout']) return undefined
  return `a pooler at ${client.host}:${client.port} drops the settings of connections`
}

/** What to say of a server that does not do what is needed. */
export function refusedBy({ host, port }: Client, cause: unknown): StartError {
  const reason = reasonOf(cause)
  const advice = reason.startsWith('unsupported startup parameter') ? ` ${POOLER_ADVICE}` : ''
  return new StartError(`DATABASE_URL: PostgreSQL at ${host}:${port} refuses: ${reason}.${advice}`, { cause })
}

/** A name with several addresses fails once for each, and the whole then has no message. */
export function reasonOf(error: unknown): string {
  const [first = error] = error instanceof AggregateError ? error.errors : []
  const message = first instanceof Error ? first.message : String(first)
  // The driver's words for it are about its own code.
  return message.includes('client password must be') ? 'it asks for a password, and the URL has none' : message
}
