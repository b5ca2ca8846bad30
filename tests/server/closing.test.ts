import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { hold, text, textDeltas } from '../support/fake-provider.ts'
import { closeAfterTest, soloAgency, startTestServer } from '../support/test-server.ts'

async function openSocket(url: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  closeAfterTest(async () => void socket.destroy())
  await once(socket, 'connect')
  return socket
}

function requestText(path: string, body: object): string {
  const json = JSON.stringify(body)
  const head = ['host: 127.0.0.1', 'content-type: application/json', `content-length: ${Buffer.byteLength(json)}`]
  return `POST ${path} HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n${json}`
}

test('an answer that its client has not read yet arrives whole after the server began to close', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  const long = 'x'.repeat(8_000_000)
  server.provider.script([text(long)])
  const socket = await openSocket(server.url)
  socket.write(requestText('/solo/get_response', { message: 'hi' }))
  await once(socket, 'readable')

  const closing = server.close()
  let received = ''
  for await (const chunk of socket) received += String(chunk)
  await closing

  expect(received).toMatch(/^HTTP\/1.1 200 /)
  expect(received.endsWith('}')).toBe(true)
  expect(received.length).toBeGreaterThan(long.length)
})

test('a close is over when the last stream is, whatever connections are still open', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  const gate = server.provider.gate()
  server.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
  const silent = await openSocket(server.url) // as browsers open them in advance
  const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
  await stream.untilText('One')

  const closing = server.close()
  gate.release()
  await stream.all()
  await closing

  expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
  expect(stream.result).not.toHaveProperty('cancelled')
  silent.resume()
  await once(silent, 'close')
})

test('a request whose body is still arriving does not hold up a close, and runs do go on', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  const gate = server.provider.gate()
  server.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
  const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
  await stream.untilText('One')
  const half = await openSocket(server.url)
  half.resume()
  const gone = once(half, 'close')
  half.on('error', () => {})
  half.write(requestText('/solo/get_response', { message: 'hi' }).slice(0, -2))
  await server.get('/healthz')

  const begun = performance.now()
  const closing = server.close()
  await gone
  const tookMs = performance.now() - begun
  gate.release()
  await stream.all()
  await closing

  expect(tookMs).toBeLessThan(5_000)
  expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
})

test('while a server closes, new runs are refused with 503 and running ones can be cancelled', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  server.provider.script([textDeltas(['One ', hold(server.provider.gate()), 'two.'])])
  const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
  await stream.untilText('One')

  const closing = server.close()
  const refused = await server.post('/solo/get_response', { message: 'hi' })
  const ready = await server.get('/readyz')
  const cancelled = await server.post('/solo/cancel_response_stream', { run_id: stream.runId })
  await stream.all()
  await closing

  expect([refused.status, ready.status]).toEqual([503, 503])
  expect(refused.body.error).toContain('shutting down')
  expect(refused.headers.get('connection')).toBe('close')
  expect(cancelled.body).toMatchObject({ ok: true, cancelled: true })
  expect(stream.outline.at(-1)).toBe('end')
})

test('a run that outlasts the drain time is cancelled, and its stream has an end', async () => {
  const server = await startTestServer({ agencies: soloAgency(), drainMs: 0 })
  server.provider.script([textDeltas(['One ', hold(server.provider.gate()), 'two.'])])
  const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
  await stream.untilText('One')

  await Promise.all([server.close(), stream.all()])

  expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
  expect(stream.result).toMatchObject({ cancelled: true })
})

test('a long stream is not cut while the drain time is not over', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  const gate = server.provider.gate()
  server.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
  const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
  await stream.untilText('One')
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())

  const closing = server.close()
  await vi.advanceTimersByTimeAsync(29_000)
  vi.useRealTimers()
  gate.release()
  await Promise.all([closing, stream.all()])

  expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
  expect(stream.result).not.toHaveProperty('cancelled')
})
