import type { errorGate } from '@bureau/runtime'
import { sendHttpError } from './a2a/http-json.ts'
import { sendApiError } from './openai/api-error.ts'

type ErrorHandler = ReturnType<typeof errorGate>

const HANDLERS: readonly (readonly [RegExp, ErrorHandler])[] = [
  [/^\/openai\/v1(?:[/?]|$)/, sendApiError],
  [/^\/a2a\//, sendHttpError],
]

/** Answers errors of addresses that no route has: below those of a protocol in its shape, elsewhere as `otherwise` does. */
export function errorsByProtocol(otherwise: ErrorHandler): ErrorHandler {
  return (error, request, reply) => {
    const [, handle = otherwise] = HANDLERS.find(([path]) => path.test(request.url)) ?? []
    return handle(error, request, reply)
  }
}
