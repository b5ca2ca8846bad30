import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { startHttpServer } from './http-server.ts'

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
  const url = await startHttpServer((_request, response) => void pour(response))
  return { url: `${url}/v1`, stalled: stalled.promise }
}
