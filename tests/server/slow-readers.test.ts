import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { expect, test } from 'vitest'
import { closeAfterTest, soloAgency, startTestServer } from '../support/test-server.ts'

const DELTA_BYTES = 64 * 1024
const TOTAL_BYTES = 256 * 1024 * 1024

/** A provider that streams one endless answer as fast as it is read, and says how much was taken. */
async function startFirehose() {
  let takenBytes = 0
  const stalled = Promise.withResolvers<number>()
  const pour = async (response: ServerResponse): Promise<void> => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const delta = { type: 'response.output_text.delta', item_id: 'msg_1', delta: 'x'.repeat(DELTA_BYTES) }
    const frame = `event: response.output_text.delta\ndata: ${JSON.stringify(delta)}\n\n`
    while (takenBytes < TOTAL_BYTES && !response.destroyed) {
      takenBytes += frame.length
      if (response.write(frame)) continue
      const patience = AbortSignal.timeout(1_500)
      await once(response, 'drain', { signal: patience }).catch(() => stalled.resolve(takenBytes))
      if (patience.aborted) return
    }
    stalled.resolve(takenBytes)
  }
  const server = createServer((_request, response) => void pour(response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closeAfterTest(async () => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, stalled: stalled.promise }
}

test('a client that does not read stops the model from being read: buffers stay bounded', async () => {
  const firehose = await startFirehose()
  const server = await startTestServer({ agencies: soloAgency(), env: { OPENAI_BASE_URL: firehose.url } })
  const body = JSON.stringify({ message: 'hi' })
  const { hostname, port } = new URL(server.url)
  const client = connect(Number(port), hostname)
  client.on('error', () => {})
  client.pause()
  client.write(
    `POST /solo/get_response_stream HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  )

  const takenBytes = await firehose.stalled
  client.destroy()

  // The kernel's socket buffers on both sides of the server hold several MiB of their own.
  expect(takenBytes).toBeLessThan(40 * 1024 * 1024)
})
