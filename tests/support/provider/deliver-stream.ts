import type { ServerResponse } from 'node:http'
import type { ClientWatch } from './client-watch.ts'
import type { CutHow, Framing } from './turn.ts'
import type { Step } from './wire.ts'

type Delivery = { readonly steps: readonly Step[]; readonly framing: Framing; readonly client: ClientWatch }

/**
 * Plays the steps on an answer whose headers are set.
 *
 * Each write becomes one HTTP chunk and is awaited, so a reader sees exactly the pieces that `framing` asks
 * for, and a client that stops reading stops the provider.
 */
export async function deliverStream(response: ServerResponse, { steps, framing, client }: Delivery): Promise<void> {
  const pending: Buffer[] = []
  for (const step of steps) {
    if (client.signal.aborted) return
    if (step.step === 'event' || step.step === 'raw') {
      pending.push(step.step === 'raw' ? step.bytes : frame(step, framing))
      if (framing.writes === 'each') await flush(response, pending, framing)
      continue
    }
    await flush(response, pending, framing)
    if (step.step === 'cut') return breakOff(response, step.how, client)
    await step.gate.pass(client.signal)
  }
  await flush(response, pending, framing)
  response.end()
}

function frame({ name, data }: { name: string | null; data: string }, framing: Framing): Buffer {
  const { newline, eventLines, spaceAfterColon } = framing
  const colon = spaceAfterColon ? ': ' : ':'
  const event = eventLines && name !== null ? `event${colon}${name}${newline}` : ''
  return Buffer.from(`${event}data${colon}${data}${newline}${newline}`)
}

async function flush(response: ServerResponse, pending: Buffer[], { writes }: Framing): Promise<void> {
  if (pending.length === 0) return
  const bytes = Buffer.concat(pending.splice(0))
  const size = typeof writes === 'object' ? writes.bytes : bytes.length
  for (let start = 0; start < bytes.length; start += size) await write(response, bytes.subarray(start, start + size))
}

/** Resolves when the bytes are with the system, or when they never will be. */
function write(response: ServerResponse, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    if (response.destroyed) return resolve()
    response.once('close', resolve)
    response.write(bytes, () => {
      response.off('close', resolve)
      resolve()
    })
  })
}

export function breakOff(response: ServerResponse, how: CutHow, client: ClientWatch): void {
  client.expectEnd()
  if (how === 'end') response.end()
  else if (how === 'reset') response.socket?.resetAndDestroy()
  else response.socket?.destroy()
}
