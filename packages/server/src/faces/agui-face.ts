import { AguiRequest, answerAgui, type AguiOptions } from '@bureau/faces'
import { checkClientConfig } from '../agencies/check-client-config.ts'
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
    const options = optionsOf(served)
    return [rawRoute(spec, ({ request }, reply) => answerAgui(options, { served, request }, reply))]
  }
}

function optionsOf(served: ServedAgency): AguiOptions {
  return {
    host: new ServerHost([served]),
    keepsThreads: false,
    reasoning: served.context.aguiReasoning,
    parse: (body) => {
      const request = parseBody(AguiRequest, body)
      checkClientConfig(request, served.context)
      return request
    },
    inputOf: (asked, { request }) => toRunInput(served, request, asked),
  }
}
