export { mcpRoutes } from './mcp/mcp-face.ts'
export type { McpTool } from './mcp/mcp-server.ts'
export { Threads } from './threads.ts'
export { type AskedRun, type FaceAgency, type FaceHost, type FaceRun, type FaceRunKey } from './face-host.ts'
