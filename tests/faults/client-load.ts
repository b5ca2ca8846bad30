import { type Client, createClient, type Result } from '@bureau/client'
import type { Ask } from './attempt.ts'
import { answerTo, type Behaviour, messageOf } from './model.ts'
import { pick } from './plan.ts'
import type { Tenant } from './tenant.ts'

const BEHAVIOURS: readonly Behaviour[] = ['answer', 'tool', 'hold', 'hold', 'tool-hold', 'steps', 'pay']
const RUN_MS = 90_000

type LoadOptions = {
  readonly url: string
  readonly apiKey: string
  readonly tenant: Tenant
  /** Messages that are being answered at any time. */
  readonly clients: number
  readonly random: () => number
}

/** Pages that use `@bureau/client` and know nothing of what happens to the servers. */
export class ClientLoad {
  finished = 0
  /** What users would have seen and must not: failures, wrong answers. */
  readonly failures: string[] = []
  /** Streams that went on with another process: when they showed the first of it, by `performance.now()`. */
  readonly resumedAt: number[] = []
  readonly #options: LoadOptions
  readonly #client: Client
  #isOver = false
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: LoadOptions) {
    const { url, apiKey, tenant } = options
    this.#options = options
    this.#client = createClient({ url, token: apiKey, integration: tenant.integrationId, storage: false })
  }

  async start(): Promise<void> {
    const { tenant, clients } = this.#options
    const consumerId = await tenant.addConsumer()
    this.#isOver = false
    this.#running = Promise.all(Array.from({ length: clients }, () => this.#send(consumerId)))
  }

  /** Sends nothing more, and waits for what is under way. */
  async stop(): Promise<void> {
    this.#isOver = true
    await this.#running
  }

  async #send(consumerId: string): Promise<void> {
    const { tenant, random } = this.#options
    while (!this.#isOver) {
      const ask = tenant.ask({ consumerId, behaviour: pick(BEHAVIOURS, random) })
      try {
        const { status, text } = await this.#answer(ask)
        if (status !== 'completed' || text !== answerTo(ask.number)) this.#fail(ask, `${status} with "${text}"`)
      } catch (error) {
        this.#fail(ask, String(error))
      }
      this.finished++
    }
  }

  async #answer(ask: Ask): Promise<Result> {
    const signal = AbortSignal.timeout(RUN_MS)
    const run = this.#client.stream({
      message: messageOf(ask.number, ask.behaviour, ask.chat),
      chat: ask.chat,
      request: ask.usageRequestId,
      body: { consumerId: ask.consumerId! },
      signal,
    })
    void this.#watch(run)
    const result = await run.result
    if (result.status !== 'waiting') return result
    const next = await run.approve(result.approvals[0]!.call_id)
    void this.#watch(next!)
    return next!.result
  }

  /** A run that waits goes on with an attempt of its own; that one is not told from others here. */
  async #watch(run: ReturnType<Client['stream']>): Promise<void> {
    try {
      for await (const event of run) if (event.type === 'run_resumed') this.resumedAt.push(performance.now())
    } catch {
      // Its result says so.
    }
  }

  #fail({ number, behaviour }: Ask, problem: string): void {
    this.failures.push(`#${number} ${behaviour}: ${problem}`)
  }
}
