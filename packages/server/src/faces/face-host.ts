import type { AskedRun, FaceAgency, FaceHost, FaceRun, FaceRunKey } from '@bureau/faces'
import type { RunLogReader } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { asUser, runUser } from '../oauth/run-user.ts'
import type { ServedAgency } from './face.ts'

const CANCEL_TIMEOUT_MS = 60_000

/** This server as the protocols see it that both servers speak: everybody who may call may use every agency. */
export class ServerHost implements FaceHost {
  readonly #agencies: ReadonlyMap<string, HostedAgency>

  constructor(served: readonly ServedAgency[]) {
    const createdAt = Math.floor(Date.now() / 1_000)
    this.#agencies = new Map(
      served.map((each) => [each.name, { ...each, createdAt, signsIn: each.needsUser }] as const),
    )
  }

  async agencies(): Promise<readonly HostedAgency[]> {
    return [...this.#agencies.values()]
  }

  async agency(_request: FastifyRequest, name: string): Promise<HostedAgency | undefined> {
    return this.#agencies.get(name)
  }

  callerOf(request: FastifyRequest, served: FaceAgency): Promise<string | null> {
    const { agency, context } = this.#hosted(served.name)
    return runUser(context.signIns, agency, request)
  }

  async begin(request: FastifyRequest, { served, input, kept }: AskedRun): Promise<FaceRun> {
    const { name, agency, context } = this.#hosted(served.name)
    const userId = await this.callerOf(request, served)
    const asked = { agency, agencyName: name, input: asUser(request, input, userId), userId, approvals: false } as const
    if (kept) {
      const { runId, log } = await context.runs.keep(request, asked)
      return keptRun(runId, log)
    }
    const run = await context.runs.follow(request, asked)
    return { runId: run.runId, read: () => run.events, leave: () => context.runs.abandon(run) }
  }

  async find(request: FastifyRequest, key: FaceRunKey): Promise<FaceRun | undefined> {
    const log = await this.#hosted(key.served.name).context.runs.find(await this.#owned(request, key))
    return log && keptRun(key.runId, log)
  }

  async cancel(request: FastifyRequest, key: FaceRunKey): Promise<boolean> {
    const owned = await this.#owned(request, key)
    const stop = { ...owned, mode: 'immediate', timeoutMs: CANCEL_TIMEOUT_MS } as const
    return (await this.#hosted(key.served.name).context.runs.cancel(stop)) !== undefined
  }

  async #owned(request: FastifyRequest, { served, runId }: FaceRunKey) {
    return { runId, agency: served.name, userId: await this.callerOf(request, served) }
  }

  #hosted(name: string): HostedAgency {
    const hosted = this.#agencies.get(name)
    if (!hosted) throw new Error(`no agency is served as ${name}`)
    return hosted
  }
}

type HostedAgency = ServedAgency & { readonly createdAt: number; readonly signsIn: boolean }

/** Whoever reads it may leave and come back. */
function keptRun(runId: string, log: RunLogReader): FaceRun {
  return { runId, read: (after, signal) => log.read(after, signal), leave: () => {} }
}
