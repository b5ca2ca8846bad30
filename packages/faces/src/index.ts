export { SIDE_REQUESTS, type SideRequests } from './chat-completions/side-request.ts'
export { type AskedRun, type FaceHost, type FaceRun, type FaceRunKey } from './face-host.ts'
export { openAiFaces } from './openai-faces.ts'
