import type { Client, Run } from '@bureau/client'
import type { Chat } from './chat.ts'
import type { ChatStore } from './chat-store.ts'

/** A turn is kept before its message is sent: so long after its start the server may not have its run yet. */
const ARRIVES_MS = 10_000
const CHECKS_EACH_MS = 250

/**
 * The run of the last turn of a chat, which this page or another tab has begun, as soon as it is at the server. Null when
 * there is none, or when another tab has seen its end.
 *
 * @throws BureauError
 */
export async function findRun(client: Client, store: ChatStore, { id, platform, turns }: Chat): Promise<Run | null> {
  let turn = turns.at(-1)
  for (;;) {
    const isKnown = platform && turn?.run != null
    const run = await client.attach(isKnown ? { run: turn!.run! } : { chat: id })
    if (run || turn?.status !== 'running' || Date.now() - turn.startedAt > ARRIVES_MS) return run
    await new Promise((resolve) => setTimeout(resolve, CHECKS_EACH_MS))
    turn = (await store.find(id))?.turns.at(-1)
    if (turn?.status !== 'running') return null
  }
}
