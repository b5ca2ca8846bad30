import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { StartError } from '@bureau/protocol'
import { afterEach, expect, test } from 'vitest'
import { ReplicaLock } from '../runs/recover/replica-lock.ts'
import { ENGINES, SERVER } from './engines.contract.ts'
import { openDatabase } from './open-database.ts'
import { probeDatabase } from './probe-database.ts'

const closing: (() => void)[] = []
afterEach(() => closing.splice(0).forEach((close) => close()))

/** The address of a pooler in front of the server, which does something with the first packet of each connection. */
async function startPooler(begin: (client: Socket, startup: Buffer) => void): Promise<string> {
  const pooler = createServer((client) => {
    client.on('error', () => {}).once('data', (startup: Buffer) => begin(client, startup))
  })
  await once(pooler.listen(0, '127.0.0.1'), 'listening')
  closing.push(() => pooler.close())
  const url = new URL(SERVER)
  url.host = `127.0.0.1:${(pooler.address() as AddressInfo).port}`
  return url.href
}

/** The packet without the settings that it asks for, as pgbouncer hands it on with `ignore_startup_parameters = options`. */
function withoutOptions(startup: Buffer): Buffer {
  const parameters = startup.toString('latin1', 8).replace(/options\0[^\0]*\0/, '')
  const packet = Buffer.concat([startup.subarray(0, 8), Buffer.from(parameters, 'latin1')])
  packet.writeInt32BE(packet.length)
  return packet
}

/** What PostgreSQL, or a pooler, sends instead of taking a connection. */
function refusal(sqlstate: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0C${sqlstate}\0M${message}\0\0`)
  const head = Buffer.from('E\0\0\0\0', 'latin1')
  head.writeInt32BE(fields.length + 4, 1)
  return Buffer.concat([head, fields])
}

const ADVICE = 'The address of a pooler needs ?pgbouncer=true.'

test.runIf(ENGINES.includes('postgres'))(
  'a pooler that is not declared as one and drops the settings of connections is found at the start, as either address, and by the doctor',
  async () => {
    const url = await startPooler((client, startup) => {
      const { hostname, port } = new URL(SERVER)
      const server = connect(Number(port || 5432), hostname)
      server.on('error', () => {}).write(withoutOptions(startup))
      client.pipe(server).pipe(client)
    })
    const reason = `a pooler at ${new URL(url).host} drops the settings of connections`
    const refused = new StartError(`DATABASE_URL: ${reason}. ${ADVICE}`)
    const openLock = () => ReplicaLock.open({ url, now: () => performance.now(), onDead: () => {}, onError: () => {} })

    await expect(openDatabase(url)).rejects.toThrow(refused)
    await expect(probeDatabase(url)).rejects.toThrow(refused)
    await expect(openLock()).rejects.toThrow(
      new StartError(
        `DATABASE_DIRECT_URL (default: DATABASE_URL): no connection to the database itself, past any pooler: ${reason}.`,
      ),
    )
  },
)

test('a pooler that is not declared as one and refuses settings is found at the start', async () => {
  const url = await startPooler((client) => void client.end(refusal('08P01', 'unsupported startup parameter: options')))
  const place = new URL(url).host

  await expect(openDatabase(url)).rejects.toThrow(
    new StartError(`DATABASE_URL: PostgreSQL at ${place} refuses: unsupported startup parameter: options. ${ADVICE}`),
  )
})

test('a server that wants a password which the URL does not have is found at the start', async () => {
  const message = (type: number, text: string): Buffer => {
    const head = Buffer.from('R\0\0\0\0\0\0\0\0', 'latin1')
    head.writeInt32BE(text.length + 8, 1)
    head.writeInt32BE(type, 5)
    return Buffer.concat([head, Buffer.from(text)])
  }
  const url = await startPooler((client) => {
    client.once('data', () => client.write(message(11, 'r=nonce,s=c2FsdA==,i=4096')))
    client.write(message(10, 'SCRAM-SHA-256\0\0'))
  })
  const { host } = new URL(url)

  await expect(openDatabase(`postgres://bureau@${host}/bureau`)).rejects.toThrow(
    new StartError(`DATABASE_URL: PostgreSQL at ${host} refuses: it asks for a password, and the URL has none.`),
  )
})

test('a certificate file that is not there is a mistake in DATABASE_URL', async () => {
  const url = 'postgres://127.0.0.1:1/bureau?sslmode=verify-full&sslrootcert=/no/such.crt'

  await expect(openDatabase(url)).rejects.toThrow(
    new StartError("DATABASE_URL: ENOENT: no such file or directory, open '/no/such.crt'."),
  )
})
