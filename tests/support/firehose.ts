import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { closeAfterTest } from './test-server.ts'

const DELTA_BYTES = 64 * 1024
const TOTAL_BYTES = 256 * 1024 * 1024

type Firehose = {
  readonly url: string
  /** Resolves with the bytes taken, once nothing was taken for `patienceMs`. */
  readonly stalled: Promise<number>
}

/** A provider that streams one endless answer as fast as it is read, and says how much was taken. */
export async function startFirehose(patienceMs = 1_500): Promise<Firehose> {
  let takenBytes = 0
  const stalled = Promise.withResolvers<number>()
  const pour = async (response: ServerResponse): Promise<void> => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const delta = { type: 'response.output_text.delta', item_id: 'msg_1', delta: 'x'.repeat(DELTA_BYTES) }
    const frame = `event: response.output_text.delta\ndata: ${JSON.stringify(delta)}\n\n`
    while (takenBytes < TOTAL_BYTES && !response.destroyed) {
      takenBytes += frame.length
      if (response.write(frame)) continue
      const patience = AbortSignal.timeout(patienceMs)
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
