import type { Client, Run } from '@bureau/client'
import { isServerThere, whenReached } from '../server/reachability.ts'
import type { Chat, Turn } from './chat.ts'
import type { ChatStore } from './chat-store.ts'

/** A turn is kept before its message is sent: so long after its start the server may not have its run yet. */
const ARRIVES_MS = 10_000
const CHECKS_EACH_MS = 250

/**
 * The run of the last turn of a chat, which this page or another tab has begun, as soon as it is at the server, and that
 * can be reached. Null when there is none, when another tab has seen its end, or when it waits on a self-hosted server: the
 * chat has all that it said.
 *
 * @throws BureauError
 */
export async function findRun(client: Client, store: ChatStore, chat: Chat): Promise<Run | null> {
  let turn = chat.turns.at(-1)
  while (turn) {
    const last = turn
    const run = await whenReached(() => attach(client, chat, last))
    if (run || turn.status !== 'running' || Date.now() - turn.startedAt > ARRIVES_MS) return run
    await new Promise((resolve) => setTimeout(resolve, CHECKS_EACH_MS))
    turn = (await store.find(chat.id))?.turns.at(-1)
    if (turn?.status !== 'running') return null
  }
  return null
}

/** Whether a run that this page has lost for this reason is looked for: when the server is back, it may have it still. */
export const mayBeFound = async (code: string): Promise<boolean> =>
  code === 'run_not_found' || (code === 'connection_lost' && !(await isServerThere()))

async function attach(client: Client, { id, platform }: Chat, { run: known, status }: Turn): Promise<Run | null> {
  const waits = status === 'waiting' && !platform
  // What comes of an approval on a self-hosted server is a run of its own, which the chat may not know yet.
  const run = await client.attach(known === null || waits ? { chat: id } : { run: known, chat: id })
  if (!run || !waits || (await run.started).run !== known) return run
  run.detach()
  return null
}
