export { createApp } from './app.ts'
export { loadConfig, type ServerConfig, ServerEnvironment } from './config.ts'
export { toolsOpenApi, type ToolsDescription } from './docs/tools-openapi.ts'
export { createHandler, type Handler, type HandlerOptions } from './embedding/create-handler.ts'
export { modelAccess, type ServerModelAccess } from './model-access.ts'
export { jwtAuthenticate, type JwtOptions } from './http/jwt-authenticate.ts'
export type { Authenticate, User } from './http/users.ts'
export type { MetricsOptions, OpenAiServerOptions, ServerOptions, ServerTool } from './options.ts'
export { readServed } from './read-served.ts'
export type { RealtimeAudioFormat, RealtimeOptions, RealtimeProviderOptions } from './realtime/realtime-options.ts'
export { type RunningServer, runServer } from './run-server.ts'
export type {
  AuthorizationFlow,
  Completed,
  FlowAnswer,
  FlowStatus,
  NewFlow,
  OAuthStateRegistry,
  TracingOptions,
  Waited,
} from '@bureau/runtime'
