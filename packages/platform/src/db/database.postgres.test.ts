import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { getIntegration } from '../integrations/integrations.repo.ts'
import { registerMembers } from '../members/register-members.ts'
import { admitCompletion } from '../runs/admit/admit-completion.ts'
import { AGENCIES, completion, openTestStore, type TestTenant } from '../test-store.contract.ts'
import { PostgresDatabase } from './database.postgres.ts'
import { admitUnderLock, countThings, insertThing, urgentCount } from './database.test-operations.ts'
import { pingDatabase } from '../system/readiness.ts'
import { ENGINES, openTestDatabase, queryRows, SERVER } from './engines.contract.ts'
import { openDatabase } from './open-database.ts'

type Fault = 'none' | 'lose COMMIT' | 'lose its answer' | 'lose its answer and stay away'

/** A wire to the server that breaks when COMMIT passes, in one of the ways in which wires break. */
class BreakingProxy {
  fault: Fault = 'none'
  /** How long everything takes on its way, in each direction. */
  delayMs = 0
  /** How often the client has waited for an answer. */
  trips = 0
  readonly #server: Server
  readonly #target: URL
  readonly #sockets = new Set<Socket>()
  #away = false

  constructor(target: string) {
    this.#target = new URL(target)
    this.#server = createServer((client) => this.#serve(client))
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    const url = new URL(this.#target)
    url.hostname = '127.0.0.1'
    url.port = String((this.#server.address() as AddressInfo).port)
    return url.href
  }

  async close(): Promise<void> {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await once(this.#server, 'close')
  }

  comeBack(): void {
    this.fault = 'none'
    this.#away = false
  }

  #serve(client: Socket): void {
    if (this.#away) return void client.destroy()
    const server = connect(Number(this.#target.port || 5432), this.#target.hostname)
    for (const socket of [client, server]) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => this.#sockets.delete(socket))
    }
    let muted = false
    let isAnswered = true
    const cut = (): void => {
      client.destroy()
      server.destroy()
    }
    client.on('data', (bytes) => {
      if (isAnswered) this.trips++
      isAnswered = false
      const commits = bytes.includes('COMMIT\0')
      if (commits && this.fault === 'lose COMMIT') return cut()
      muted = commits && this.fault !== 'none'
      this.#away = commits && this.fault === 'lose its answer and stay away'
      this.#later(() => server.write(bytes))
    })
    server.on('data', () => (isAnswered = true))
    server.on('data', (bytes) => (muted ? cut() : this.#later(() => client.write(bytes))))
    client.on('end', () => this.#later(() => server.end()))
    server.on('end', () => this.#later(() => client.end()))
  }

  #later(work: () => void): void {
    if (this.delayMs === 0) work()
    else setTimeout(work, this.delayMs)
  }
}

describe.runIf(ENGINES.includes('postgres'))('PostgreSQL over a wire that breaks at COMMIT', () => {
  let platform: Awaited<ReturnType<typeof openTestStore>>
  let tenant: TestTenant
  let proxy: BreakingProxy
  let db: PostgresDatabase
  beforeAll(async () => {
    platform = await openTestStore('postgres')
    await platform.rows('CREATE TABLE things (name text PRIMARY KEY)')
    tenant = await platform.addTenant()
    proxy = new BreakingProxy(platform.url)
    db = new PostgresDatabase({ url: await proxy.listen() })
  })
  afterEach(() => proxy.comeBack())
  afterAll(async () => {
    await db.close()
    await proxy.close()
    await platform.drop()
  })

  test('an admission waits for three answers, for four in a chat that there is', async () => {
    const counted = new BreakingProxy(platform.url)
    const near = new PostgresDatabase({ url: await counted.listen(), poolSize: 1 })
    const { caller, integrationId: apiIntegrationId } = tenant
    await near.run(pingDatabase, undefined)
    const tripsOf = async (chatId: string | null): Promise<[number, string]> => {
      const before = counted.trips
      const { signal } = new AbortController()
      const options = { bootId: platform.bootId, agencies: AGENCIES, missingSandboxFiles: [], signal }
      const store = { ...platform.store, db: near }
      const admission = await admitCompletion(store, caller, completion({ apiIntegrationId, chatId }), options)
      const trips = counted.trips - before
      if (admission.outcome !== 'admitted') throw new Error(admission.outcome)
      await tenant.finish(admission)
      return [trips, admission.run.chatId]
    }

    const [first, chatId] = await tripsOf(null)
    const [later] = await tripsOf(chatId)

    expect({ first, later }).toEqual({ first: 3, later: 4 })
    await near.close()
    await counted.close()
  })

  test('what only reads waits for the answer to its query; its end is a trip that nobody waits for', async () => {
    const counted = new BreakingProxy(platform.url)
    const near = new PostgresDatabase({ url: await counted.listen(), poolSize: 1 })
    const { ownerId, integrationId } = tenant
    const read = () => near.run(getIntegration, { ownerId, integrationId })
    await read() // and whatever a new connection asks for
    const before = counted.trips
    await read()
    await read()
    expect(counted.trips - before).toBeLessThanOrEqual(2 * 2)
    await near.close()
    await counted.close()
  })

  /** The database, 100 ms away. */
  async function openDistant(): Promise<PostgresDatabase> {
    const far = new BreakingProxy(platform.url)
    far.delayMs = 50
    const distant = new PostgresDatabase({ url: await far.listen(), keepStatements: false })
    onTestFinished(async () => {
      await distant.close()
      await far.close()
    })
    return distant
  }

  test('a crowd of admissions over a database that is 100 ms away is admitted, on the few connections behind a pooler', async () => {
    const distant = await openDistant()
    const answers = await Promise.allSettled(Array.from({ length: 30 }, (_, key) => distant.run(admitUnderLock, key)))
    expect(answers.filter(({ status }) => status === 'rejected')).toEqual([])
  })

  test('of two lists with the same consumers, neither waits for as long as the other has members, 100 ms away', async () => {
    const distant = await openDistant()
    const members = Array.from({ length: 40 }, (_, number) => ({ consumerId: `far-${number}` }))
    const { ownerId, integrationId } = tenant
    const register = () => distant.run(registerMembers, { ownerId, integrationId, actor: 'key_1', members })
    const lists = await Promise.all([register(), register()])
    expect(lists.flat().filter(({ status }) => status === 'created')).toHaveLength(40)
  })

  const stored = (name: string): Promise<unknown> => platform.db.run(countThings, name)
  const admit = (usageRequestId: string) =>
    admitCompletion(
      { ...platform.store, db },
      tenant.caller,
      completion({ apiIntegrationId: tenant.integrationId, usageRequestId }),
      {
        bootId: platform.bootId,
        agencies: AGENCIES,
        missingSandboxFiles: [],
        signal: new AbortController().signal,
      },
    )

  test('a COMMIT that never arrived is an honest refusal: nothing was written', async () => {
    proxy.fault = 'lose COMMIT'
    await expect(db.run(insertThing, 'lost')).rejects.toMatchObject({ code: 'database_unavailable', status: 503 })
    expect(await stored('lost')).toBe(0)
    await expect(admit('lost')).rejects.toMatchObject({ code: 'database_unavailable' })
  })

  test('a COMMIT whose answer was lost is found to have taken place', async () => {
    proxy.fault = 'lose its answer'
    expect(await db.run(insertThing, 'kept')).toBe('kept')
    expect(await stored('kept')).toBe(1)
    expect(await admit('kept')).toMatchObject({ outcome: 'admitted' })
  })

  test('when the server stays away the outcome is unknown, and is said to be', async () => {
    proxy.fault = 'lose its answer and stay away'
    await expect(db.run(insertThing, 'who knows')).rejects.toMatchObject({ name: 'CommitUnknownError' })
    proxy.comeBack()
    proxy.fault = 'lose its answer and stay away'
    expect(await admit('who knows')).toEqual({ outcome: 'unknown' })
    proxy.comeBack()
    expect(await admit('who knows')).toMatchObject({ outcome: 'replayed' })
  })

  test('a read whose COMMIT was lost has its result: there was nothing to commit', async () => {
    proxy.fault = 'lose its answer and stay away'
    expect(await db.run(countThings, 'nothing')).toBe(0)
  })

  test('a broken connection is replaced', async () => {
    expect(await db.run(insertThing, 'again')).toBe('again')
  })
})

describe.runIf(ENGINES.includes('postgres'))('PostgreSQL', () => {
  test('a server that is not there is unavailable', async () => {
    const db = new PostgresDatabase({ url: 'postgres://nobody@127.0.0.1:1/none' })
    await expect(db.run(queryRows, 'SELECT 1')).rejects.toMatchObject({ code: 'database_unavailable' })
    await db.close()
  })

  test('one that became a standby or read-only is not ready; its connection is given up, for a new one may lead elsewhere', async () => {
    const { url, drop } = await openTestDatabase('postgres')
    const db = new PostgresDatabase({ url, poolSize: 1 })
    await db.run(pingDatabase, undefined)
    await db.run(queryRows, 'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY')

    await expect(db.run(pingDatabase, undefined)).rejects.toMatchObject({ code: 'database_unavailable' })
    await db.run(pingDatabase, undefined)

    await db.close()
    await drop()
  })

  test('once it is closed it is unavailable, as requests that come while a process ends are told', async () => {
    const { url, drop } = await openTestDatabase('postgres')
    const db = new PostgresDatabase({ url })
    await db.run(queryRows, 'SELECT 1')
    await db.close()

    await expect(db.run(queryRows, 'SELECT 1')).rejects.toMatchObject({ code: 'database_unavailable' })
    await drop()
  })

  test('whoever waits two seconds for a connection is refused; what runs write waits on', async () => {
    const { url, drop } = await openTestDatabase('postgres')
    const db = new PostgresDatabase({ url, poolSize: 1 })
    await db.run(queryRows, 'CREATE TABLE things (name text)')
    const slow = db.run(queryRows, 'SELECT pg_sleep(3)')
    const [request, run] = await Promise.allSettled([db.run(queryRows, 'SELECT 1'), db.run(urgentCount, undefined)])
    expect(request).toMatchObject({ reason: { code: 'database_unavailable', detail: 'no free connection' } })
    expect(run).toMatchObject({ status: 'fulfilled' })
    await slow
    await db.close()
    await drop()
  })

  test('a server with no connection left is waited for as long as for a connection of its own', async () => {
    const { url, drop } = await openTestDatabase('postgres')
    const role = `test_${randomUUID().replaceAll('-', '')}`
    const admin = new Client({ connectionString: url })
    await admin.connect()
    await admin.query(`CREATE ROLE ${role} LOGIN CONNECTION LIMIT 1 PASSWORD 'p'`)
    const limited = Object.assign(new URL(url), { username: role, password: 'p' }).href
    const db = new PostgresDatabase({ url: limited })
    const ask = () => db.run(queryRows, 'SELECT 1 AS one')

    expect(await Promise.all([ask(), ask(), ask()])).toEqual([[{ one: 1 }], [{ one: 1 }], [{ one: 1 }]])
    await db.close()

    const stranger = new Client({ connectionString: limited })
    await stranger.connect()
    const excluded = new PostgresDatabase({ url: limited })
    await expect(excluded.run(queryRows, 'SELECT 1')).rejects.toMatchObject({ code: 'database_unavailable' })
    await stranger.end()
    await excluded.close()
    await admin.query(`DROP ROLE ${role}`)
    await admin.end()
    await drop()
  })

  test('admissions that wait for one lock leave connections to others', async () => {
    const { url, drop } = await openTestDatabase('postgres')
    const db = new PostgresDatabase({ url })
    const holder = new Client({ connectionString: url })
    await holder.connect()
    await holder.query('CREATE TABLE things (name text); SELECT pg_advisory_lock(4711)')
    const crowd = Array.from({ length: 30 }, () => db.run(admitUnderLock, 4711).catch((error: unknown) => error))
    expect(await db.run(countThings, 'nothing')).toBe(0)
    await holder.end()
    await Promise.all(crowd)
    await db.close()
    await drop()
  })

  test('a statement that takes longer than five seconds is given up', async () => {
    const { db, drop } = await openTestDatabase('postgres')
    await expect(db.run(queryRows, 'SELECT pg_sleep(7)')).rejects.toMatchObject({ code: 'database_unavailable' })
    expect(await db.run(queryRows, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
    await drop()
  })

  test('processes that start together on an empty database migrate it once', async () => {
    const { db, url, drop } = await openTestDatabase('postgres')
    const [schema] = await db.run(queryRows, 'SELECT current_schema() AS name')
    await db.run(queryRows, `DROP SCHEMA ${String(schema!['name'])} CASCADE`)
    await db.run(queryRows, `CREATE SCHEMA ${String(schema!['name'])}`)
    const opened = await Promise.all(Array.from({ length: 4 }, () => openDatabase(url)))
    const applied = await opened[0]!.run(queryRows, 'SELECT version FROM schema_migrations ORDER BY version')
    const shipped = readdirSync(new URL('../../migrations/', import.meta.url)).toSorted()
    expect(applied).toEqual(shipped.map((file) => ({ version: Number(file.slice(0, 4)) })))
    for (const one of opened) await one.close()
    await drop()
  })
})

test.runIf(ENGINES.includes('postgres'))(
  'a database that must exist and does not is refused, and gets no table',
  async () => {
    const schema = `test_${randomUUID().replaceAll('-', '')}`
    const url = new URL(SERVER)
    url.searchParams.set('options', `-c search_path=${schema}`)
    const client = new Client({ connectionString: SERVER })
    await client.connect()
    await client.query(`CREATE SCHEMA ${schema}`)

    await expect(openDatabase(url.href, { mustExist: true })).rejects.toThrow('DATABASE_URL: this database is empty.')

    const { rows } = await client.query(`SELECT tablename FROM pg_tables WHERE schemaname = '${schema}'`)
    await client.query(`DROP SCHEMA ${schema} CASCADE`)
    await client.end()
    expect(rows).toEqual([])
  },
)
