import { AguiRequest, answerAgui, type AguiOptions } from '@bureau/faces'
import type { ServerContext } from '../context.ts'
import { checkClientConfig } from '../agencies/check-client-config.ts'
import { withFiles } from '../agencies/read-files.ts'
import { logSkippedOverrides } from '../agencies/skipped-overrides.ts'
import { parseBody } from '../http/invalid-body.ts'
import { rawRoute } from '../http/route.ts'
import { streamSpec } from './agency/agency-specs.ts'
import { toRunInput } from './agency/read-request.ts'
import type { Face, ServedAgency } from './face.ts'
import { ServerHost } from './face-host.ts'

/** The AG-UI protocol at `/<agency>/<route>`. */
export function aguiFace(route: string): Face {
  return (served) => {
    const body = AguiRequest.meta({ id: 'RunAgentInput' })
    const spec = streamSpec(served, { route, body, description: 'The events of the AG-UI protocol.' })
    const host = new ServerHost([served])
    const options = optionsOf(served, host)
    return [
      rawRoute(spec, async ({ request }, reply) => {
        const [agency] = await host.agencies()
        return answerAgui(options, { served: agency!, request }, reply)
      }),
    ]
  }
}

function optionsOf({ agency, context }: ServedAgency, host: ServerHost): AguiOptions {
  const { models } = context.environment
  return {
    host,
    keepsThreads: false,
    reasoning: context.aguiReasoning,
    parse: (body) => {
      const request = parseBody(AguiRequest, body)
      if (request.client_config) checkClientConfig(request.client_config, { models, vendors: context.callerVendors })
      return request
    },
    inputOf: (asked, { request }) => {
      const log = request.log as ServerContext['log']
      const input = withFiles(toRunInput(asked), asked, { ...context.files, log })
      if (input.clientConfig) logSkippedOverrides(agency, input.clientConfig, { models, log })
      return input
    },
  }
}
