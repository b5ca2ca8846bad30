import type { ErrorHandler, Route } from '@bureau/runtime'
import { sendHttpError } from './a2a/http-json.ts'
import { chatFace, type ChatOptions } from './chat-completions/chat-face.ts'
import type { FaceHost } from './face-host.ts'
import { rpcErrorHandler } from './json-rpc/rpc-errors.ts'
import { responsesFace, type ResponsesOptions } from './open-responses/responses-face.ts'
import { sendApiError } from './openai/api-error.ts'
import { modelRoutes } from './openai/models.routes.ts'

/** All of OpenAI's API that a server speaks, under `/openai/v1`. */
export function openAiFaces(host: FaceHost, options: ChatOptions & ResponsesOptions): readonly Route<object>[] {
  return [...modelRoutes(host), ...chatFace(host, options), ...responsesFace(host, options)]
}

const HANDLERS: readonly (readonly [RegExp, ErrorHandler])[] = [
  [/^\/openai\/v1(?:[/?]|$)/, sendApiError],
  [/^\/(?:a2a|\.well-known\/agent-card\.json)(?:[/?]|$)/, sendHttpError],
  [/^\/mcp(?:[/?]|$)/, rpcErrorHandler(() => ({}))],
]

/** Answers errors that come before any route: below those of a protocol in its shape, elsewhere as `otherwise` does. */
export function errorsByProtocol(otherwise: ErrorHandler): ErrorHandler {
  return (error, request, reply) => {
    const [, handle = otherwise] = HANDLERS.find(([path]) => path.test(request.url)) ?? []
    return handle(error, request, reply)
  }
}
