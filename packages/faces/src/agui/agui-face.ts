import type { RunInput } from '@bureau/framework'
import { type ErrorCode, type RunEnded, type RunRequest, ServiceError, type WireItem } from '@bureau/protocol'
import { streamResponse } from '@bureau/runtime'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { answerOf } from '../answer.ts'
import { beginRun, type Remedies } from '../begin.ts'
import type { AskedRun, FaceAgency, FaceHost, FaceRun } from '../face-host.ts'
import { sendEvents } from '../follow.ts'
import { UnusableInput } from './content-parts.ts'
import { aguiEncoder, refusedRun, runError } from './encode.ts'
import { type AguiRequest, readAguiRequest } from './read-request.ts'
import { callerOptionsOf, decisionsOf, selectInput, selectNew } from './select-input.ts'
import { unusableKinds } from './wire-messages.ts'

export type AguiOptions = {
  readonly host: FaceHost
  /** Checks a body as the server checks others. @throws what the server refuses bodies with. */
  readonly parse: (body: unknown, request: FastifyRequest) => AguiRequest
  /** What a run is given of what is asked for, with what only this server takes. */
  readonly inputOf: (
    asked: RunRequest,
    given: { readonly served: FaceAgency; readonly request: FastifyRequest },
  ) => RunInput
  /** True: a thread is a conversation that the server keeps, and of its messages only the new ones count. */
  readonly keepsThreads: boolean
  /** False: reasoning is left out. Default true. */
  readonly reasoning?: boolean
}

const CONTENT_TYPE = 'text/event-stream'

type Asking = { readonly served: FaceAgency; readonly request: FastifyRequest }

/** Runs an agency for a request of the protocol, and streams what happens in it. */
export async function answerAgui(options: AguiOptions, asking: Asking, reply: FastifyReply): Promise<unknown> {
  const { request, served } = asking
  const { log } = request
  const body = readAguiRequest(request.body, (given) => options.parse(given, request))
  try {
    const { asked, fileSources } = readRun(options, asking, body)
    const skipped = unusableKinds(body.messages)
    if (skipped.length > 0)
      log.warn({ kinds: skipped.slice(0, 20) }, 'AG-UI: parts that no model can take are left out')
    // Nobody would read the answer, so nothing is spent on one.
    if (reply.raw.destroyed) return reply.hijack()
    const run = await beginRun({ host: options.host, remedies: REMEDIES }, request, asked)
    nameRun(reply, run)
    const onPartsLost = (): void => log.warn({ agency: served.name }, PARTS_LOST)
    const { reasoning = true, keepsThreads } = options
    const resultOf = (ended: RunEnded): unknown => (ended.caller_calls ? null : answerOf(ended, served))
    const recorded = keepsThreads ? { resultOf, run } : {}
    const encode = aguiEncoder({ ...body, fileSources, reasoning, onPartsLost, ...recorded })
    return await sendEvents(reply, run, { encode, contentType: CONTENT_TYPE, refused: runError })
  } catch (error) {
    const refusal = refusalOf(error, body)
    if (!refusal) throw error
    const chunks = oneChunk(refusedRun(body, refusal))
    return streamResponse(reply, { contentType: CONTENT_TYPE, keepalive: false, chunks, onClientLost: () => {} })
  }
}

const REMEDIES: Remedies = {
  consumer: 'Send consumer_id.',
  waiting: (runId) => `Answer all its interrupts in resume, or cancel the run: POST /v1/runs/${runId}/cancel.`,
}

const PARTS_LOST =
  'AG-UI: a client from before 1.0 gets the text of a tool result without its images and files; @ag-ui/client 1.0 gets them'

type Refusal = { readonly code: string; readonly message: string }

/** What AG-UI clients expect in a stream of its own: what is wrong with an input, or with the answers to interrupts. */
function refusalOf(error: unknown, { resume = [] }: AguiRequest): Refusal | undefined {
  if (error instanceof UnusableInput) return { code: 'invalid_input', message: error.message }
  const code = error instanceof ServiceError && resume.length > 0 ? REFUSED_ANSWERS[error.code] : undefined
  return code === undefined ? undefined : { code, message: (error as ServiceError).message }
}

const REFUSED_ANSWERS: Partial<Record<ErrorCode, string>> = {
  approval_missing: 'approval_missing',
  approval_expired: 'approval_expired',
  approval_decided: 'approval_used',
  approval_not_found: 'approval_invalid',
  run_not_found: 'approval_invalid',
  run_not_waiting: 'approval_invalid',
  invalid_request: 'approval_invalid',
}

type Asked = { readonly asked: AskedRun; readonly fileSources: () => WireItem | undefined }

/** @throws UnusableInput */
function readRun({ inputOf, keepsThreads }: AguiOptions, { served, request }: Asking, body: AguiRequest): Asked {
  const selected = keepsThreads ? selectNew(body) : selectInput(body, served.agency)
  const callerOptions = callerOptionsOf(body)
  const { input, fileSources } = watchFiles({
    ...inputOf(selected, { served, request }),
    sharedState: body.state ?? {},
    ...(callerOptions && { callerOptions }),
  })
  const { threadId: thread, consumer_id: onBehalfOf } = body
  const decided = { ...decisionsOf(body, { keepsThreads }), decidesAll: true, keptByClient: 'conversation' } as const
  const asked = { served, input, kept: false, thread, ...decided, ...(onBehalfOf !== undefined && { onBehalfOf }) }
  return { asked, fileSources }
}

/** The run reads the files; the client's conversation gets the note on where they came from. */
function watchFiles(input: RunInput): { readonly input: RunInput; readonly fileSources: Asked['fileSources'] } {
  const { readFiles } = input
  if (!readFiles) return { input, fileSources: () => undefined }
  let sources: WireItem | undefined
  const reading: typeof readFiles = async (...given) => {
    const read = await readFiles(...given)
    if ('attachmentSources' in read) sources = read.attachmentSources
    return read
  }
  return { input: { ...input, readFiles: reading }, fileSources: () => sources }
}

/** Where the server keeps runs and conversations, a page may find them by other routes, too. */
function nameRun(reply: FastifyReply, { runId, conversation }: FaceRun): void {
  if (conversation !== undefined) reply.header('x-agent-run-id', runId).header('x-chat-id', conversation)
}

async function* oneChunk(text: string): AsyncGenerator<string> {
  yield text
}
