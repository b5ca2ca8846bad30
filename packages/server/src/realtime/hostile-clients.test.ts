import { once } from 'node:events'
import { connect as connectTcp } from 'node:net'
import { Agency, Agent, tool } from '@bureau/framework'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { z } from 'zod'
import { call, speech } from './fake-realtime-provider.test-support.ts'
import { type RealtimeServer, startRealtimeServer } from './realtime.test-support.ts'

const slow = tool({
  name: 'slow',
  description: 'Waits until its session ends.',
  parameters: z.object({}),
  execute: (_, { signal }) =>
    new Promise<string>((resolve) => {
      signal?.addEventListener('abort', () => resolve('stopped'), { once: true })
    }),
})
const refund = new Agent({ name: 'Refunds', instructions: 'You give money back.' })
const desk = new Agent({ name: 'Desk', instructions: 'You are the desk.', tools: [slow] })
const agencies = { shop: new Agency({ entryPoint: desk, flows: [[desk, refund, 'handoff']] }) }
const PATH = '/shop/realtime'

async function openSessions(server: RealtimeServer): Promise<number> {
  const line = (await server.get('/metrics')).match(/^bureau_realtime_sessions\{agency="shop"\} (\d+)$/m)
  return Number(line?.[1])
}

async function untilAllLeft(server: RealtimeServer): Promise<void> {
  await expect.poll(() => openSessions(server)).toBe(0)
  await expect.poll(() => server.provider.sessions.every(({ closeCode }) => closeCode !== undefined)).toBe(true)
  server.provider.forget()
}

/** The server is as it was before anybody came: no session is left, and a new one works. */
async function expectUnharmed(server: RealtimeServer): Promise<void> {
  await untilAllLeft(server)
  server.provider.script([[speech('Still here.')]])
  const client = await server.connect(PATH)
  client.send({ type: 'response.create' })
  await client.next('audio_end')
}

const garbage = fc.oneof(
  fc.string({ maxLength: 200 }),
  fc.json(),
  fc.uint8Array({ maxLength: 500 }),
  fc.record({ type: fc.constantFrom('input_audio_buffer', 'tool_approval', 'interrupt', 'commit_audio', '') }),
  fc.record({ type: fc.constant('input_audio_buffer'), audio: fc.anything(), commit: fc.anything() }),
  fc.record({ type: fc.constant('tool_approval'), call_id: fc.anything(), approve: fc.anything() }),
  fc.record({ type: fc.string({ minLength: 1 }), session: fc.anything(), item: fc.anything() }),
)

test('whatever a client sends, its session goes on until it leaves, and so does the server', async () => {
  const server = await startRealtimeServer({ agencies, options: { metrics: true } })
  await fc.assert(
    fc.asyncProperty(fc.array(garbage, { maxLength: 30 }), async (messages) => {
      const client = await server.connect(PATH)
      for (const message of messages) {
        if (typeof message === 'string' || message instanceof Uint8Array) client.socket.send(message)
        else client.socket.send(JSON.stringify(message))
      }
      client.send({
        type: 'conversation.item.create',
        item: { type: 'message', role: 'user', content: [], id: 'last' },
      })
      while ((await client.next('raw_model_event:conversation.item.added')).data.item.id !== 'last');
      client.socket.terminate()
    }),
    { numRuns: 30 },
  )
  await expectUnharmed(server)
})

test('clients that leave at any moment leave nothing behind', async () => {
  const server = await startRealtimeServer({ agencies, options: { metrics: true } })
  const moments: readonly ((path: string) => Promise<unknown>)[] = [
    // In the middle of the handshake.
    async (path) => {
      const { hostname, port } = new URL(server.url)
      const socket = connectTcp(Number(port), hostname)
      await once(socket, 'connect')
      const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'
      socket.write(
        `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${upgrade}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
      )
      socket.destroySoon()
      await once(socket, 'close')
    },
    async (path) => {
      const socket = new WebSocket(server.url.replace('http', 'ws') + path)
      socket.on('error', () => {})
      socket.terminate()
    },
    // As soon as it is accepted, before the model has its instructions.
    async (path) => (await server.connect(path)).socket.terminate(),
    async (path) => (await server.connect(path)).socket.close(),
    async (path) => {
      const client = await server.connect(path)
      await client.next('history_updated')
      client.socket.terminate()
    },
    // While the model speaks.
    async (path) => {
      server.provider.script([[speech('A story', [Buffer.alloc(48_000), Buffer.alloc(48_000)])]])
      const client = await server.connect(path)
      client.send({ type: 'response.create' })
      await client.next('audio')
      client.socket.terminate()
    },
    // While a tool works.
    async (path) => {
      server.provider.script([[call('slow', {}, 'c1')]])
      const client = await server.connect(path)
      client.send({ type: 'response.create' })
      await client.next('tool_start')
      client.socket.terminate()
    },
    // During a handover.
    async (path) => {
      server.provider.script([[call('transfer_to_Refunds', {}, 'c2')]])
      const client = await server.connect(path)
      client.send({ type: 'response.create' })
      await client.next('raw_model_event:response.done')
      client.socket.terminate()
    },
    // With half of a message sent.
    async (path) => {
      const client = await server.connect(path)
      client.socket.send(Buffer.alloc(1_000), { fin: false })
      client.socket.terminate()
    },
  ]

  // A first session, so that its count is there to be read.
  ;(await server.connect(PATH)).socket.terminate()
  for (const leave of moments) {
    await leave(PATH)
    await untilAllLeft(server)
  }

  await expectUnharmed(server)
})

test('frames that break the WebSocket protocol end their own connection only', async () => {
  const server = await startRealtimeServer({ agencies, options: { metrics: true } })
  const neighbour = await server.connect(PATH)
  for (const bytes of [
    Buffer.from([0x81, 0x05, 0x68, 0x65, 0x6c, 0x6c, 0x6f]), // not masked
    Buffer.from([0xff, 0x80, 0, 0, 0, 0]), // reserved bits
    Buffer.from([0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]), // of 2^63 bytes
    Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0xc3, 0x28]), // text that is no UTF-8
  ]) {
    const client = await server.connect(PATH)
    await client.next('history_updated')
    ;(client.socket as unknown as { _socket: NodeJS.WritableStream })._socket.write(bytes)
    expect([1002, 1006, 1007, 1009]).toContain((await client.closed).code)
  }

  server.provider.script([[speech('Fine.')]])
  neighbour.send({ type: 'response.create' })
  await neighbour.next('audio_end')
  neighbour.socket.terminate()
  await expectUnharmed(server)
})

test('a text of an exhausting depth is ignored like any other', async () => {
  const server = await startRealtimeServer({ agencies, options: { metrics: true } })
  const client = await server.connect(PATH)
  await client.next('history_updated')

  client.socket.send(`{"type":"x","a":${'['.repeat(200_000)}${']'.repeat(200_000)}}`)
  client.socket.send('{"type":"__proto__","__proto__":{"polluted":true}}')
  client.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content: [] } })

  await client.next('raw_model_event:conversation.item.added')
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  client.socket.terminate()
  await expectUnharmed(server)
})

const encoded = (text: string): string => Buffer.from(text).toString('base64url')

test.each([
  ['nothing', {}],
  ['an empty token', { headers: { authorization: 'Bearer ' } }],
  ['a token with a space behind', { headers: { authorization: 'Bearer secret x' } }],
  ['two protocols with wrong tokens', { protocols: ['bureau.token.YQ', 'bureau.token.Yg'] }],
  ['a ticket without a signature', { protocols: ['bureau.realtime', `bureau.token.${encoded('e30')}`] }],
  ['a ticket signed by nobody', { protocols: ['bureau.realtime', `bureau.token.${encoded('e30.')}`] }],
  ['a ticket that is no JSON', { protocols: ['bureau.realtime', `bureau.token.${encoded('!.!.!')}`] }],
  ['a very long token', { protocols: ['bureau.realtime', `bureau.token.${'A'.repeat(10_000)}`] }],
])('401 with %s, and the provider hears nothing of it', async (_, connect) => {
  const server = await startRealtimeServer({ agencies, token: 'secret' })
  await expect(server.connect(PATH, connect)).rejects.toThrow('401')
  expect(server.provider.sessions).toEqual([])
})
