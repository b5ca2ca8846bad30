import type { RunInput } from '@bureau/framework'
import type { WireItem } from '@bureau/protocol'
import { type Call, streamResponse } from '@bureau/runtime'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ApprovalRefused } from '../../approvals/approvals.ts'
import { checkClientConfig } from '../../agencies/check-client-config.ts'
import { withFiles } from '../../agencies/read-files.ts'
import { logSkippedOverrides } from '../../agencies/skipped-overrides.ts'
import type { ServerContext } from '../../context.ts'
import { rawRoute } from '../../http/route.ts'
import { streamSpec } from '../agency/agency-specs.ts'
import { toRunInput } from '../agency/read-request.ts'
import type { Face, ServedAgency } from '../face.ts'
import { streamRun } from '../stream-run.ts'
import { UnusableInput } from './content-parts.ts'
import { aguiEncoder, refusedRun } from './encode.ts'
import { AguiRequest, readAguiRequest } from './read-request.ts'
import { unusableKinds } from './wire-messages.ts'
import { answersOf, callerOptionsOf, selectInput } from './select-input.ts'

/** The AG-UI protocol at `/<agency>/<route>`. */
export function aguiFace(route: string): Face {
  return (served) => {
    const body = AguiRequest.meta({ id: 'RunAgentInput' })
    const spec = streamSpec(served, { route, body, description: 'The events of the AG-UI protocol.' })
    return [rawRoute(spec, (call, reply) => stream(call, reply, served))]
  }
}

const CONTENT_TYPE = 'text/event-stream'

async function stream(call: Call, reply: FastifyReply, served: ServedAgency): Promise<unknown> {
  const { agency, context } = served
  const { models } = context.environment
  const body = readAguiRequest(call.request.body)
  checkClientConfig(body.client_config, { models, vendors: context.callerVendors })
  const asked = readInput(body, served, call.request)
  if (asked instanceof UnusableInput) return refuse(reply, body, { code: 'invalid_input', message: asked.message })
  const { input, fileSources } = asked
  logSkippedOverrides(agency, input.clientConfig, { models, log: call.request.log as ServerContext['log'] })
  const { log } = call.request
  const skipped = unusableKinds(body.messages)
  if (skipped.length > 0) log.warn({ kinds: skipped.slice(0, 20) }, 'AG-UI: parts that no model can take are left out')
  const onPartsLost = (): void => log.warn({ agency: served.name }, PARTS_LOST)
  const encode = aguiEncoder({ ...body, fileSources, reasoning: context.aguiReasoning, onPartsLost })
  const run = { input, answers: answersOf(body), kept: 'conversation' as const }
  try {
    return await streamRun(call, reply, served, { ...run, contentType: CONTENT_TYPE, encode })
  } catch (error) {
    if (!(error instanceof ApprovalRefused)) throw error
    return refuse(reply, body, { code: error.code, message: error.entries[0]!.msg })
  }
}

const PARTS_LOST =
  'AG-UI: a client from before 1.0 gets the text of a tool result without its images and files; @ag-ui/client 1.0 gets them'

type Refusal = Parameters<typeof refusedRun>[1]

/** Refuses a request as AG-UI clients expect it: in a stream of its own. */
function refuse(reply: FastifyReply, body: AguiRequest, refusal: Refusal): Promise<unknown> {
  const chunks = oneChunk(refusedRun(body, refusal))
  return streamResponse(reply, { contentType: CONTENT_TYPE, keepalive: false, chunks, onClientLost: () => {} })
}

type Asked = { readonly input: RunInput; readonly fileSources: () => WireItem | undefined }

/** What is wrong with an input is part of the stream, as AG-UI clients expect it. */
function readInput(
  body: AguiRequest,
  { agency, context }: ServedAgency,
  { log }: FastifyRequest,
): Asked | UnusableInput {
  try {
    const request = selectInput(body, agency)
    const callerOptions = callerOptionsOf(body)
    const sharedState = body.state ?? {}
    const input = { ...toRunInput(request), sharedState, ...(callerOptions && { callerOptions }) }
    return watchFiles(withFiles(input, request, { ...context.files, log: log as ServerContext['log'] }))
  } catch (error) {
    if (error instanceof UnusableInput) return error
    throw error
  }
}

/** The run reads the files; the client's conversation gets the note on where they came from. */
function watchFiles(input: RunInput): Asked {
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

async function* oneChunk(text: string): AsyncGenerator<string> {
  yield text
}
