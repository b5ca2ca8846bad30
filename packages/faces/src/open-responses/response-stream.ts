import type { ApprovalRequest } from '@bureau/protocol'
import type { EventBatch } from '@bureau/runtime'
import type { FaceAgency, FaceRun } from '../face-host.ts'
import { responseDescriber, type ResponseResource } from './resource.ts'
import { ResponseEvents, type ResponseStream } from './response-events.ts'
import type { ResponseRecord } from './response-record.ts'
import type { KindOfCall } from './steps.ts'

type Streamed = {
  readonly served: FaceAgency
  readonly run: Pick<FaceRun, 'approvalsUrl' | 'endedAt'>
  readonly isStrict: boolean
}

/** What makes a response of the events of its run. */
export function streamOf(record: ResponseRecord, { served, run, isStrict }: Streamed): ResponseStream {
  const { id, agent, functions, request } = record
  return {
    id,
    approvalsUrl: run.approvalsUrl,
    describe: responseDescriber(record, run.endedAt),
    agent,
    functions: new Set(functions),
    ...(request.include?.includes('bureau:steps') && { kindOfCall: kindsOf(served) }),
    isStrict,
  }
}

function kindsOf({ agency }: FaceAgency): KindOfCall {
  return (agent, name) => {
    if (agency.handoffsFrom(agent).some(({ toolName }) => toolName === name)) return 'handoff'
    return agency.messageToolsOf(agent).some((tool) => tool.name === name) ? 'message' : 'tool'
  }
}

/**
 * A response as it is now, made of its record and of what the run has done so far.
 *
 * @param run - Undefined: it is worked on where its events cannot be reached.
 */
export async function responseNow(
  record: ResponseRecord,
  served: FaceAgency,
  run: FaceRun | undefined,
): Promise<ResponseResource> {
  const events = new ResponseEvents(streamOf(record, { served, run: run ?? {}, isStrict: false }))
  if (!run || (!run.isAtRest && run.head <= record.after)) return events.resource
  for await (const batch of ownEvents(record, run, new AbortController().signal)) {
    for (const event of batch.events) events.encode(event)
    if (!run.isAtRest && batch.first + batch.events.length > run.head) break
  }
  return events.resource
}

/** The events of a response: those of its run, up to where the run has gone on after a person's decision. */
export async function* ownEvents(
  { runId, after }: ResponseRecord,
  run: FaceRun,
  signal: AbortSignal,
): AsyncGenerator<EventBatch, void> {
  let approvals: ApprovalRequest[] = []
  for await (const { first, events } of run.read(after, signal)) {
    for (const [at, event] of events.entries()) {
      if (event.type === 'run.resumed' && approvals.length > 0) {
        yield { first, events: [...events.slice(0, at), waitingEnd(runId, approvals)] }
        return
      }
      approvals = event.type === 'approval.requested' ? [...approvals, event] : []
    }
    yield { first, events }
  }
}

/** What the usage was then, no record says. */
function waitingEnd(run_id: string, approvals: readonly ApprovalRequest[]): EventBatch['events'][number] {
  const nothing = { new_messages: [], usage: null, usage_by_model: [], output: null, error: null }
  return { type: 'run.ended', run_id, status: 'waiting', ...nothing, approvals }
}
