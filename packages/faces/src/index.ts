export { a2aRoutes } from './a2a/a2a-face.ts'
export { MAX_PUSHES, type PushConfig, type PushConfigs, sendNotification, TOO_MANY_PUSHES } from './a2a/push.ts'
export { MemoryTasks } from './a2a/tasks.memory.ts'
export { type RecordedTask, RunTasks, type TaskRecords } from './a2a/tasks.runs.ts'
export type { Asked as AskedTask, Task } from './a2a/tasks.ts'
export type { ListTasks, NewPush, TaskState } from './a2a/protocol.ts'
export { answerAgui, type AguiOptions } from './agui/agui-face.ts'
export { AguiRequest, PlatformAguiRequest } from './agui/read-request.ts'
export { SIDE_REQUESTS, type SideRequests } from './chat-completions/side-request.ts'
export {
  type AskedRun,
  type FaceAgency,
  type FaceDecision,
  type FaceHost,
  type FaceRun,
  type FaceRunKey,
} from './face-host.ts'
export { mcpRoutes } from './mcp/mcp-face.ts'
export type { McpTool } from './mcp/mcp-server.ts'
export { MemoryResponseStore } from './open-responses/response-store.memory.ts'
export type { ResponseRecord } from './open-responses/response-record.ts'
export type { BegunResponse, ResponseStore, StoredResponse } from './open-responses/response-store.ts'
export { responseNow } from './open-responses/response-stream.ts'
export { baseUrlOf } from './base-url.ts'
export { FACE_HEADERS } from './face-headers.ts'
export { errorsByProtocol, openAiFaces } from './protocols.ts'
export { Threads } from './threads.ts'
