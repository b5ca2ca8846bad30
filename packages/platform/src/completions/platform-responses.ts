import {
  type BegunResponse,
  responseNow,
  type ResponseRecord,
  type ResponseStore,
  type StoredResponse,
} from '@bureau/faces'
import { ServiceError, type WireItem, withoutMetadata } from '@bureau/protocol'
import type { EncodeEvent } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import type { Platform } from '../context.ts'
import { reachOf } from '../caller.ts'
import { callerOf } from '../http/callers.ts'
import { getRun } from '../run-records/read-runs.ts'
import { deleteResponse, findResponse, putResponse } from '../run-records/response-records.ts'
import type { PlatformHost } from './face-host.ts'

/** The responses of owners: each is a record beside its run, of which every process makes the same response. */
export class PlatformResponses implements ResponseStore {
  readonly continuesRuns = true
  readonly #platform: Platform
  readonly #host: PlatformHost

  constructor(platform: Platform, host: PlatformHost) {
    this.#platform = platform
    this.#host = host
  }

  async put(request: FastifyRequest, { record, events }: BegunResponse): Promise<EncodeEvent> {
    const { ownerId } = callerOf(request, true)
    const { runId, after: afterSeq, inputItems } = record
    const kept = { ...record, inputItems: inputItems.map(withoutData) }
    await this.#platform.store.db.run(putResponse, { ownerId, runId, afterSeq, record: kept })
    return (event) => events.encode(event)
  }

  async find(request: FastifyRequest, id: string): Promise<StoredResponse | undefined> {
    const key = keyOf(id)
    const found =
      key && (await this.#platform.store.db.run(findResponse, { ...reachOf(callerOf(request, true)), ...key }))
    if (!found) return undefined
    const record = found as ResponseRecord
    const { agency, runId } = record
    const served = await this.#host.agency(request, agency)
    if (!served) return undefined
    const resource = async () => {
      const run = await this.#host.find(request, { served, runId }).catch(orUnreachable)
      return responseNow(record, served, run)
    }
    const thread = async () => {
      const wanted = { ...reachOf(callerOf(request, true)), runId, output: true }
      // All of the run: a decision made another response of it, but left the calls of the one before open.
      const { newMessages = [] } = await this.#platform.store.db.run(getRun, wanted)
      return { thread: null, known: newMessages.map(withoutMetadata) }
    }
    return { record, served, resource, thread, ended: Promise.resolve() }
  }

  async delete(request: FastifyRequest, { record }: StoredResponse): Promise<void> {
    const { ownerId } = callerOf(request, true)
    const { runId, after: afterSeq } = record
    await this.#platform.store.db.run(deleteResponse, { ownerId, runId, afterSeq })
  }
}

/** Without Redis nobody but the process that works on a run has all its events. */
function orUnreachable(error: unknown): undefined {
  if (!(error instanceof ServiceError) || error.code !== 'stream_unavailable') throw error
}

/** `resp_<run>`, and `resp_<run>-<number>` for what followed on a person's decision. */
function keyOf(id: string): { readonly runId: string; readonly afterSeq: number } | undefined {
  const [, runId, after = '0'] = /^resp_(run_[A-Za-z0-9]{1,64})(?:-(\d{1,15}))?$/.exec(id) ?? []
  return runId === undefined ? undefined : { runId, afterSeq: Number(after) }
}

/** A request may hold 32 MiB of images and files. As in its chat, their places remain. */
function withoutData(item: WireItem): WireItem {
  const { content } = item
  if (!Array.isArray(content)) return item
  return { ...item, content: content.map((part: Record<string, unknown> | null) => withoutInline(part ?? {})) }
}

function withoutInline(part: Record<string, unknown>): object {
  return Object.fromEntries(
    Object.entries(part).filter(([, value]) => !(typeof value === 'string' && /^data:[^,]{1,256},/.test(value))),
  )
}
