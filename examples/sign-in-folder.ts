import { createHash, randomUUID } from 'node:crypto'
import { link, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type {
  AuthorizationFlow,
  Completed,
  FlowAnswer,
  FlowStatus,
  NewFlow,
  OAuthStateRegistry,
  Waited,
} from '@bureau/server'

type Ended = Exclude<FlowStatus, 'pending'>
type Answer = { readonly query: string } | { readonly status: Ended }

const LIFETIME_MS = 15 * 60_000
const POLL_MS = 200

/**
 * Sign-ins in a folder that several processes share: a file for the flow, one for its first answer (a code, or how it ended
 * without one), and one for what became of the code. Files older than 15 minutes may be deleted at any time.
 */
export class SignInFolder implements OAuthStateRegistry {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  async open(flow: NewFlow): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    for (const kind of ['answer', 'end']) await rm(this.#file(flow.state, kind), { force: true })
    await writeFile(this.#file(flow.state, 'flow'), JSON.stringify(flow), { mode: 0o600 })
  }

  async find(state: string): Promise<AuthorizationFlow | undefined> {
    const file = await stat(this.#file(state, 'flow')).catch(() => undefined)
    const flow = await this.#read<NewFlow>(state, 'flow')
    if (!file || !flow || file.mtimeMs < Date.now() - LIFETIME_MS) return undefined
    const answers = [await this.#read<Answer>(state, 'answer'), await this.#read<Answer>(state, 'end')]
    const [status = 'pending'] = answers.flatMap((answer) => (answer && 'status' in answer ? [answer.status] : []))
    return { ...flow, status, createdAt: file.mtimeMs }
  }

  async complete({ state, userId, outcome }: FlowAnswer): Promise<Completed> {
    const flow = await this.find(state)
    if (!flow) return { accepted: false, because: 'unknown' }
    if (flow.status !== 'pending') return { accepted: false, because: 'settled', flow }
    const isForeign = userId !== null && userId !== flow.userId
    if (isForeign && 'error' in outcome) return { accepted: false, because: 'user_mismatch', flow }
    const answer: Answer = isForeign ? { status: 'error:user_mismatch' } : answerOf(outcome)
    const isFirst = await this.#create(state, 'answer', answer)
    const now = (await this.find(state)) ?? flow
    if (isFirst && !isForeign) return { accepted: true, flow: now }
    return { accepted: false, because: isFirst ? 'user_mismatch' : 'settled', flow: now }
  }

  async wait(state: string, { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal }): Promise<Waited> {
    const unknown = { status: 'error:unknown_state' } as const
    const answer = await until({ timeoutMs, signal }, async () =>
      (await this.find(state)) ? this.#read<Waited>(state, 'answer') : unknown,
    )
    if (answer) return answer
    await this.settle(state, 'timeout')
    return { status: 'timeout' }
  }

  async settle(state: string, status: Ended): Promise<void> {
    if (!(await this.find(state))) await this.open({ state, authUrl: '', server: '', userId: '' })
    if (!(await this.#create(state, 'answer', { status }))) await this.#create(state, 'end', { status })
  }

  async settled(state: string, timeoutMs: number): Promise<AuthorizationFlow | undefined> {
    const ended = await until({ timeoutMs }, async () => {
      const flow = await this.find(state)
      return flow?.status === 'pending' ? undefined : { flow }
    })
    return ended ? ended.flow : this.find(state)
  }

  async close(): Promise<void> {}

  /** False: the file was there already. It appears with all that is in it, so that nobody reads half an answer. */
  async #create(state: string, kind: string, value: Answer): Promise<boolean> {
    const whole = this.#file(state, randomUUID())
    await writeFile(whole, JSON.stringify(value), { mode: 0o600 })
    try {
      await link(whole, this.#file(state, kind))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
      throw error
    } finally {
      await rm(whole)
    }
  }

  async #read<Value>(state: string, kind: string): Promise<Value | undefined> {
    const text = await readFile(this.#file(state, kind), 'utf8').catch(() => undefined)
    return text === undefined ? undefined : (JSON.parse(text) as Value)
  }

  /** The state is a secret, so it does not become a name. */
  #file(state: string, kind: string): string {
    return path.join(this.#folder, `${createHash('sha256').update(state).digest('hex')}.${kind}`)
  }
}

function answerOf(outcome: FlowAnswer['outcome']): Answer {
  return 'error' in outcome ? { status: `error:${outcome.error}` } : outcome
}

/** Asks until there is something; undefined when the time is over. */
async function until<Found>(
  { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
  ask: () => Promise<Found | undefined>,
): Promise<Found | undefined> {
  for (const deadline = Date.now() + timeoutMs; ;) {
    signal?.throwIfAborted()
    const found = await ask()
    const leftMs = deadline - Date.now()
    if (found !== undefined || leftMs <= 0) return found
    await sleep(Math.min(POLL_MS, leftMs), undefined, { signal }).catch(() => {})
  }
}
