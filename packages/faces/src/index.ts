export { SIDE_REQUESTS, type SideRequests } from './chat-completions/side-request.ts'
export { type AskedRun, type FaceAgency, type FaceHost, type FaceRun, type FaceRunKey } from './face-host.ts'
export { MemoryResponseStore } from './open-responses/response-store.memory.ts'
export { openAiFaces } from './openai-faces.ts'
