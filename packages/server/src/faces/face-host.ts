import type { AskedRun, FaceAgency, FaceHost, FaceRun, FaceRunKey } from '@bureau/faces'
import type { RunInput } from '@bureau/framework'
import { type ErrorCode, ServiceError } from '@bureau/protocol'
import type { RunLogReader } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { type Answers, ApprovalRefused } from '../approvals/approvals.ts'
import { runUser } from '../oauth/run-user.ts'
import type { ServedAgency } from './face.ts'
import type { StartAsked } from '../request-runs.ts'
import { startAsked } from './start-asked.ts'

const CANCEL_TIMEOUT_MS = 60_000

/** This server as the protocols see it that both servers speak: everybody who may call may use every agency. */
export class ServerHost implements FaceHost {
  readonly #agencies: ReadonlyMap<string, ServedAgency>

  constructor(served: readonly ServedAgency[]) {
    this.#agencies = new Map(served.map((each) => [each.name, each]))
  }

  async agencies(): Promise<readonly ServedAgency[]> {
    return [...this.#agencies.values()]
  }

  async agency(_request: FastifyRequest, name: string): Promise<ServedAgency | undefined> {
    return this.#agencies.get(name)
  }

  callerOf(request: FastifyRequest, served: FaceAgency): Promise<string | null> {
    return runUser(this.#hosted(served.name), request)
  }

  async begin(request: FastifyRequest, { served, input, kept, decisions, ...rules }: AskedRun): Promise<FaceRun> {
    const hosted = this.#hosted(served.name)
    const { runs, registry } = hosted.context
    const mayDecide = decisions !== undefined
    const begin = async (start: StartAsked): Promise<FaceRun> => {
      const asked = { ...start, approvals: mayDecide && start.approvals }
      if (kept) {
        const { runId, log } = await runs.keep(request, asked)
        return keptRun(runId, log, mayDecide)
      }
      const run = await runs.follow(request, asked)
      const { runId, events } = run
      return {
        runId,
        after: 0,
        head: 0,
        isAtRest: false,
        mayDecide,
        read: () => events,
        leave: () => registry.abandon(run),
      }
    }
    const { decidesAll = false, keptByClient = 'messages' } = rules
    const asked = { input, answers: answersOf(input, decisions, { decidesAll }), kept: keptByClient }
    try {
      return await startAsked(hosted, asked, { request, userId: await this.callerOf(request, served), begin })
    } catch (error) {
      throw error instanceof ApprovalRefused ? refusedDecision(error) : error
    }
  }

  async find(request: FastifyRequest, key: FaceRunKey): Promise<FaceRun | undefined> {
    const log = await this.#hosted(key.served.name).context.kept.find(await this.#owned(request, key))
    return log && keptRun(key.runId, log, true)
  }

  async cancel(request: FastifyRequest, key: FaceRunKey): Promise<boolean> {
    const owned = await this.#owned(request, key)
    const stop = { ...owned, mode: 'immediate', timeoutMs: CANCEL_TIMEOUT_MS } as const
    return (await this.#hosted(key.served.name).context.registry.cancel(stop)) !== undefined
  }

  async #owned(request: FastifyRequest, { served, runId }: FaceRunKey) {
    return { runId, agency: served.name, userId: await this.callerOf(request, served) }
  }

  #hosted(name: string): ServedAgency {
    const hosted = this.#agencies.get(name)
    if (!hosted) throw new Error(`no agency is served as ${name}`)
    return hosted
  }
}

/** Whoever reads it may leave and come back. */
function keptRun(runId: string, log: RunLogReader, mayDecide: boolean): FaceRun {
  const { head, ended: isAtRest } = log
  return {
    runId,
    after: 0,
    head,
    isAtRest,
    mayDecide,
    read: (after, signal) => log.read(after, signal),
    leave: () => {},
  }
}

/** A message of the user leaves nothing to wait for. @throws ServiceError `invalid_request`: a decision comes without its token. */
function answersOf(
  { message }: RunInput,
  decisions: AskedRun['decisions'] = [],
  { decidesAll }: { readonly decidesAll: boolean },
): Answers {
  const list = decisions.map(({ token, ...decision }) => {
    if (token === undefined) throw new ServiceError('invalid_request', { message: unknownCall(decision.callId) })
    return { token, ...decision }
  })
  if (decidesAll) return { list, others: 'refuse', lenient: true }
  return { list, others: message.length > 0 ? 'reject' : 'wait', lenient: false }
}

const unknownCall = (callId = ''): string =>
  `The call ${JSON.stringify(callId.slice(0, 100))} does not wait, or the request for its decision did not come along.`

/** The protocols name what was sent in their own words. */
function refusedDecision(error: ApprovalRefused): ServiceError {
  return new ServiceError(CODES[error.code], { message: error.entries[0]!.msg, cause: error })
}

const CODES = {
  approval_expired: 'approval_expired',
  approval_used: 'approval_decided',
  approval_missing: 'approval_missing',
  approval_invalid: 'invalid_request',
} as const satisfies Record<ApprovalRefused['code'], ErrorCode>
