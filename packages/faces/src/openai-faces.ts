import type { Route } from '@bureau/runtime'
import { chatFace, type ChatOptions } from './chat-completions/chat-face.ts'
import type { FaceHost } from './face-host.ts'
import { responsesFace, type ResponsesOptions } from './open-responses/responses-face.ts'
import { modelRoutes } from './openai/models.routes.ts'

/** All of OpenAI's API that a server speaks, under `/openai/v1`. */
export function openAiFaces(host: FaceHost, options: ChatOptions & ResponsesOptions): readonly Route<object>[] {
  return [...modelRoutes(host), ...chatFace(host, options), ...responsesFace(host, options)]
}
