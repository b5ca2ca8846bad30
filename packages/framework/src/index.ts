export {
  type FunctionTool,
  MCPServerStdio,
  MCPServerStreamableHttp,
  ModelBehaviorError,
  RunContext,
  type RunToolApprovalItem,
  type Tool as SdkTool,
} from '#agents-core'
export { Agency, type AgencyOptions } from './agency.ts'
export { Agent, type AgentOptions } from './agent.ts'
export { ask, type AskOptions, askStreamed } from './ask.ts'
export { chain, type Flow, type FlowKind, type FlowOption } from './flow.ts'
export { newMessagesForClient } from './history.ts'
export { McpConnections, ToolServerError } from './mcp/connections.ts'
export { enableHostedMcpToolOAuth } from './mcp/hosted-tool-oauth.ts'
export type { OAuthAccess } from './mcp/oauth-access.ts'
export { MCPServerOAuth, type MCPServerOAuthOptions, type OAuthServerSettings, settingsOf } from './mcp/oauth-server.ts'
export { oauthServersOf, type ProtectedServer } from './mcp/protected-servers.ts'
export { serverTools } from './mcp/server-tools.ts'
export { type AuthorizationRequest, type Authorize, SignInFailed, type SignInFailure } from './mcp/sign-in.ts'
export { FileTokenStore, type FileTokenStoreOptions } from './mcp/token-store.file.ts'
export type { CredentialsKey, StoredCredentials, TokenStore } from './mcp/token-store.ts'
export { messageTool, type MessageTool, type MessageToolOptions } from './message-tool.ts'
export type { ClientConfig } from './models/client-config.ts'
export { chargedVendor, isProvider, unknownProvider, VENDORS, vendorsOf } from './models/model-vendor.ts'
export {
  DEFAULT_MODEL,
  DEMO_MODEL,
  lacksAddress,
  type ModelAccess,
  type ModelApi,
  VENDOR_BASE_URL,
} from './models/resolve-model.ts'
export { endpointUrl } from './models/responses.ts'
export { skippedOverride } from './models/skipped-override.ts'
export { ModelError, type ModelErrorCode } from './models/transport.ts'
export { AnyFunction, Milliseconds, type OptionChecks, readOptions } from './options.ts'
export { usageOfRealtimeResponse } from './pricing.ts'
export type { RunEnvironment, RunJournal, RunSink } from './run.ts'
export { runAgency, type RunOptions } from './run-agency.ts'
export { RunControl, RunStopped } from './run-control.ts'
export type { RunInput } from './run-input.ts'
export type { AgencyContext } from './run-scope.ts'
export {
  callTool,
  definitionOf,
  SDK_TOOL_FAILURE,
  tool,
  Tool,
  type ToolClass,
  type ToolContext,
  type ToolDefinition,
  ToolInputError,
  toSdkTools,
} from './tool.ts'
export type { Content, ResponseFacts, RunObserver, RunSpan, RunStep, StepEnd } from './trace-step.ts'
