import { answerAgui, type AguiOptions, PlatformAguiRequest } from '@bureau/faces'
import { ServiceError } from '@bureau/protocol'
import { param } from '@bureau/runtime'
import { requireOfConsumer } from '../consumer-tokens/consumer-request.ts'
import { callerOf } from '../http/callers.ts'
import { parseInput } from '../http/parse-input.ts'
import { rawRoute, type Route } from '../http/route.ts'
import { PlatformHost } from './face-host.ts'
import { ADMISSION_ERRORS } from './start-completion.ts'

const MIB = 1_048_576

/** AG-UI. The protocol has no errors before a run but those of HTTP, so they are the platform's. */
export const aguiRoutes: readonly Route[] = [
  rawRoute(
    {
      method: 'POST',
      url: '/agui/:agency',
      id: 'runAgui',
      consumer: 'chat',
      tag: 'agui',
      summary: 'AG-UI',
      description: 'A run of an integration, for clients of the AG-UI protocol. Its thread is a chat.',
      scope: 'runs',
      admits: true,
      maxBodyBytes: 32 * MIB,
      ownBody: PlatformAguiRequest,
      success: {
        200: {
          contentType: 'text/event-stream',
          description: 'The events of the AG-UI protocol.',
          headers: { 'X-Agent-Run-Id': 'The run.', 'X-Chat-Id': 'The chat of the thread.' },
        },
      },
      errors: [
        'invalid_request',
        'invalid_json',
        'invalid_content_type',
        'body_too_large',
        'body_too_slow',
        'route_not_found',
        ...ADMISSION_ERRORS,
      ],
      headers: { 'Idempotency-Key': 'The same request with the same key follows the run that it has begun.' },
    },
    async (call, reply) => {
      const { platform, request } = call
      const host = new PlatformHost(platform)
      const served = await host.agency(request, param(call, 'agency'))
      if (!served) throw new ServiceError('route_not_found', { message: 'There is no such agency.' })
      return answerAgui({ ...OPTIONS, host }, { served, request }, reply)
    },
  ),
]

const OPTIONS: Omit<AguiOptions, 'host'> = {
  keepsThreads: true,
  parse: (given, request) => {
    if (given === undefined) throw new ServiceError('invalid_json')
    const body = parseInput(PlatformAguiRequest, given)
    const { consumer_id, user_context, additional_instructions } = body
    requireOfConsumer({ consumer_id, user_context, additional_instructions }, callerOf(request, true))
    return body
  },
  inputOf: ({ message, additional_instructions: additionalInstructions, user_context: userContext }) => ({
    message,
    history: [],
    ...(additionalInstructions != null && { additionalInstructions }),
    ...(userContext != null && { userContext }),
  }),
}
