export { a2aRoutes } from './a2a/a2a-face.ts'
export { MemoryTasks } from './a2a/tasks.memory.ts'
export { type RecordedTask, RunTasks, type TaskRecords } from './a2a/tasks.runs.ts'
export type { Asked as AskedTask } from './a2a/tasks.ts'
export type { ListTasks } from './a2a/protocol.ts'
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
export { FunctionName, MAX_FUNCTIONS, Parameters } from './openai/caller-functions.ts'
export type { ResponseRecord } from './open-responses/response-record.ts'
export type { BegunResponse, ResponseStore, StoredResponse } from './open-responses/response-store.ts'
export { responseNow } from './open-responses/response-stream.ts'
export { openAiFaces } from './openai-faces.ts'
export { Threads } from './threads.ts'
