import type { Writable } from 'node:stream'

/** Works while a client is there: the signal aborts when it goes. A run that nobody waits for any more need not begin. */
export async function whileOpen<Result>(
  client: Pick<Writable, 'destroyed' | 'once' | 'off'>,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const left = new AbortController()
  const leave = (): void => left.abort(new Error('the client has left'))
  if (client.destroyed) leave()
  client.once('close', leave)
  try {
    return await work(left.signal)
  } finally {
    client.off('close', leave)
  }
}
