import { randomUUID } from 'node:crypto'
import { StartError } from '@bureau/protocol'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ENGINES, queryRows, SERVER } from './engines.contract.ts'
import { openDatabase } from './open-database.ts'
import { probeDatabase } from './probe-database.ts'

describe.runIf(ENGINES.includes('postgres'))('the role of DATABASE_URL', () => {
  const name = `test_${randomUUID().replaceAll('-', '')}`
  const [maker, other] = [name, `${name}_other`]
  const client = new Client({ connectionString: SERVER })
  const urlAs = (role: string, options = ''): string => {
    const url = new URL(SERVER)
    Object.assign(url, { username: role, password: 'p' })
    url.searchParams.set('options', `-c search_path=${name} ${options}`)
    return url.href
  }
  const refusalOf = async (url: string): Promise<string> => {
    const error: unknown = await openDatabase(url).then(
      (db) => db.close(),
      (reason: unknown) => reason,
    )
    expect(error).toBeInstanceOf(StartError)
    return (error as Error).message
  }
  beforeAll(async () => {
    await client.connect()
    await client.query(`CREATE ROLE ${maker} LOGIN CREATEROLE PASSWORD 'p'; CREATE ROLE ${other} LOGIN PASSWORD 'p';
      CREATE SCHEMA ${name} AUTHORIZATION ${maker}`)
  })
  afterAll(async () => {
    await client.query(`DROP SCHEMA ${name} CASCADE; DROP OWNED BY ${maker}, ${other}; DROP ROLE ${maker}, ${other}`)
    await client.end()
  })

  test('one that may not make the tables is refused in one line', async () => {
    expect(await refusalOf(urlAs(other))).toMatch(/^DATABASE_URL: PostgreSQL at .* refuses: no schema .*\.$/)
    expect(await refusalOf(urlAs(maker, '-c default_transaction_read_only=on'))).toContain(
      'in a read-only transaction.',
    )
  })

  test('time limits that it has for requests do not end a migration that takes longer', async () => {
    await client.query('SELECT pg_advisory_lock(727001)') // as another process does that migrates
    const opening = openDatabase(urlAs(maker, '-c statement_timeout=200ms -c lock_timeout=200ms'))
    await Promise.race([opening, client.query('SELECT pg_sleep(0.5)')])
    await client.query('SELECT pg_advisory_unlock(727001)')

    const db = await opening
    expect(await db.run(queryRows, 'SELECT state FROM runs')).toEqual([])
    await db.close()
  })

  test('another one than the policies name, as after a restore, does not start and find no key', async () => {
    await client.query(`GRANT ALL ON SCHEMA ${name} TO ${other}; GRANT ALL ON ALL TABLES IN SCHEMA ${name} TO ${other}`)
    expect(await refusalOf(urlAs(other))).toContain(`${other} is not a member of the role platform_tenant.`)
    await expect(probeDatabase(urlAs(other))).rejects.toThrow(`${other} is not a member of the role platform_tenant.`)

    await client.query(`GRANT platform_tenant TO ${other}`)
    expect(await refusalOf(urlAs(other))).toMatch(/the policies of the table \w+ do not let .*_other in/)
  })

  test('tables of others in the same schema are no concern of ours', async () => {
    await client.query(`CREATE TABLE ${name}.theirs (name text); ALTER TABLE ${name}.theirs ENABLE ROW LEVEL SECURITY`)

    const db = await openDatabase(urlAs(maker))
    expect(await db.run(queryRows, 'SELECT state FROM runs')).toEqual([])
    await db.close()
  })

  test('what was restored before platform_tenant was there has no policies, and is not started on', async () => {
    await client.query(`DROP POLICY tenant ON ${name}.runs`)

    expect(await refusalOf(urlAs(maker))).toContain('the policies of the table runs')
  })
})
