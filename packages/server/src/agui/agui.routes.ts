import type { FastifyRequest } from 'fastify'
import type { Agency, RunInput } from '@bureau/framework'
import type { WireItem } from '@bureau/protocol'
import { ok, RunLog, streamResponse } from '@bureau/runtime'
import { agencyMetadata } from '../agencies/agency-metadata.ts'
import { metadataSpec, streamSpec } from '../agencies/agency-specs.ts'
import { checkClientConfig } from '../agencies/check-client-config.ts'
import { withFiles } from '../agencies/read-files.ts'
import { toRunInput } from '../agencies/read-run-request.ts'
import { logSkippedOverrides } from '../agencies/skipped-overrides.ts'
import type { ServerContext } from '../context.ts'
import { abandon, isClientLost } from '../http/client-lost.ts'
import { jsonRoute, rawRoute, type ServerRoute } from '../http/route.ts'
import { asUser, runUser } from '../oauth/run-user.ts'
import { AguiRequest, readAguiRequest } from './agui-request.ts'
import { UnusableInput } from './content-parts.ts'
import { encodeAgui, refusedRun } from './encode-agui.ts'
import { selectInput } from './select-input.ts'

/** The routes of one agency for AG-UI clients: `get_response_stream` in their protocol, and `get_metadata`. */
export function aguiRoutes(context: ServerContext, name: string, agency: Agency): ServerRoute[] {
  const about = { name, needsUser: context.signIns?.agencies.has(agency) ?? false }
  return [
    rawRoute(streamSpec(about, DescribedRequest, 'The events of the AG-UI protocol.'), async ({ request }, reply) => {
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
      const events = new RunLog()
      const run = await context.startRun(request, {
        agency,
        agencyName: name,
        input: asUser(asked.input, userId),
        userId,
        sink: events,
      })
      const stop = (): void => run.control.cancel('immediate')
      if (isClientLost(reply)) return abandon(reply, stop)
      return streamResponse(reply, {
        ...STREAM,
        chunks: encodeAgui(events.read(), {
          ...body,
          fileSources: asked.fileSources,
          reasoning: context.aguiReasoning,
        }),
        onClientLost: stop,
      })
    }),

    jsonRoute(metadataSpec(name), async () => ok(await agencyMetadata(agency, context.metadataOptions))),
  ]
}

const DescribedRequest = AguiRequest.meta({ id: 'RunAgentInput' })

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
