import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Agency, RunInput } from '@bureau/framework'
import type { WireItem } from '@bureau/protocol'
import { encodeBatches, streamResponse, UnkeptRunLog } from '@bureau/runtime'
import { agencyMetadata } from '../agencies/agency-metadata.ts'
import { checkClientConfig } from '../agencies/check-client-config.ts'
import { withFiles } from '../agencies/read-files.ts'
import { toRunInput } from '../agencies/read-run-request.ts'
import { logSkippedOverrides } from '../agencies/skipped-overrides.ts'
import type { ServerContext } from '../context.ts'
import { abandon, isClientLost } from '../http/client-lost.ts'
import { asUser, runUser } from '../oauth/run-user.ts'
import { type AguiRequest, readAguiRequest } from './agui-request.ts'
import { UnusableInput } from './content-parts.ts'
import { aguiEncoder, refusedRun } from './encode-agui.ts'
import { selectInput } from './select-input.ts'

export { AguiRequest } from './agui-request.ts'

/** The routes of one agency for AG-UI clients: `get_response_stream` in their protocol, and `get_metadata`. */
export function aguiRoutes(app: FastifyInstance, context: ServerContext, name: string, agency: Agency): void {
  app.post(`/${name}/get_response_stream`, async (request, reply) => {
    const body = readAguiRequest(request.body)
    checkClientConfig(body.client_config, { models: context.environment.models, vendors: context.callerVendors })
    const userId = await runUser(context.signIns, agency, request)
    if (isClientLost(reply)) return abandon(reply)
    const asked = readInput(body, context, request)
    const log = request.log as ServerContext['log']
    if (asked instanceof UnusableInput) {
      const refused = refusedRun(body, { code: 'invalid_input', message: asked.message })
      return streamResponse(reply, { ...STREAM, chunks: oneChunk(refused), onClientLost: () => {} })
    }
    logSkippedOverrides(agency, asked.input.clientConfig, { models: context.environment.models, log })
    const events = new UnkeptRunLog()
    const run = await context.startRun(request, {
      agency,
      agencyName: name,
      input: asUser(asked.input, userId),
      userId,
      sink: events,
    })
    const asAsked = { ...body, fileSources: asked.fileSources, reasoning: context.aguiReasoning }
    const stop = (): void => run.control.cancel('immediate')
    if (isClientLost(reply)) return abandon(reply, stop)
    return streamResponse(reply, {
      ...STREAM,
      chunks: encodeBatches(events.read(), aguiEncoder(asAsked)),
      onClientLost: stop,
    })
  })

  app.get(`/${name}/get_metadata`, async () => agencyMetadata(agency, context.metadataOptions))
}

const STREAM = { contentType: 'text/event-stream', keepalive: true } as const

type Asked = { readonly input: RunInput; readonly fileSources: () => WireItem | undefined }

/** What is wrong with an input is told in the stream, as AG-UI clients expect it. */
function readInput(body: AguiRequest, { files }: ServerContext, { log }: FastifyRequest): Asked | UnusableInput {
  try {
    const request = selectInput(body)
    return watchFiles(withFiles(toRunInput(request), request, { ...files, log: log as ServerContext['log'] }))
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
