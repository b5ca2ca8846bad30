import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { startFirehose } from '../support/firehose.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

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
