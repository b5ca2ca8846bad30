import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { Client } from 'pg'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { HAS_POSTGRES, type OwnServer, startPostgres } from '../../../../tests/faults/own-servers.ts'
import { PostgresDatabase } from './database.postgres.ts'
import { countThings, insertThing } from './database.test-operations.ts'

/** A database behind a wire that lets no COMMIT through, but cuts it when `harm` is done. */
async function openBehind(server: OwnServer, harm: () => Promise<void>): Promise<PostgresDatabase> {
  const proxy = createServer((client) => {
    const upstream = connect(Number(new URL(server.url).port), '127.0.0.1')
    let isCut = false
    for (const socket of [client, upstream]) socket.on('error', () => {})
    client.on('data', (bytes) => {
      if (!bytes.includes('COMMIT\0')) return void upstream.write(bytes)
      isCut = true
      void harm().finally(() => client.destroy())
    })
    upstream.on('data', (bytes) => isCut || client.write(bytes))
    upstream.on('close', () => isCut || client.destroy())
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const url = new URL(server.url)
  url.port = String((proxy.address() as AddressInfo).port)
  const db = new PostgresDatabase({ url: url.href })
  onTestFinished(async () => {
    await db.close()
    proxy.close()
  })
  return db
}

async function query(server: OwnServer, text: string, times = 1): Promise<void> {
  const client = new Client({ connectionString: server.url })
  await client.connect()
  for (let count = 0; count < times; count++) await client.query(text)
  await client.end()
}

describe.runIf(HAS_POSTGRES)('a transaction whose COMMIT meets the end of PostgreSQL', () => {
  let server: OwnServer
  let direct: PostgresDatabase
  beforeAll(async () => {
    server = await startPostgres()
    await query(server, 'CREATE TABLE things (name text PRIMARY KEY); CREATE TABLE others (at int)')
    direct = new PostgresDatabase({ url: server.url })
    return async () => {
      await direct.close()
      await server.remove()
    }
  })

  const restart = async (how: 'orderly' | 'crash'): Promise<void> => {
    await server.stop(how)
    await server.start()
  }

  test('after a crash its number may be that of another one, which does not count as its own', async () => {
    const db = await openBehind(server, async () => {
      await restart('crash')
      await query(server, 'INSERT INTO others VALUES (1)', 20)
    })

    await expect(db.run(insertThing, 'lost')).rejects.toMatchObject({ name: 'CommitUnknownError', result: 'lost' })
    expect(await direct.run(countThings, 'lost')).toBe(0)
  })

  test('after a crash a number that nobody has had since is that of no transaction', async () => {
    const db = await openBehind(server, () => restart('crash'))

    await expect(db.run(insertThing, 'early')).rejects.toMatchObject({ code: 'database_unavailable' })
    expect(await direct.run(countThings, 'early')).toBe(0)
  })

  test('after a stop in order it is rolled back, and known to be', async () => {
    const db = await openBehind(server, () => restart('orderly'))

    await expect(db.run(insertThing, 'stopped')).rejects.toMatchObject({ code: 'database_unavailable' })
  })
})
