export type { AgencyHandoff } from './agency/handoff.ts'
export { Agency, type AgencyOptions, type LeftOutHistory, titleOf } from './agency/agency.ts'
export { Agent } from './agency/agent.ts'
export { otherCopy } from './agency/copies.ts'
export type { AnswerOf, AnswersOf } from './agency/answers.ts'
export type { AgentOptions, Prompt, ToolResult, ToolUseBehavior } from './agency/agent-options.ts'
export type {
  GuardrailResult,
  InputGuardrail,
  InputGuardrailArguments,
  OutputGuardrail,
  OutputGuardrailArguments,
} from './agency/guardrail.ts'
export { Handoff, handoff, type HandoffInput, type HandoffOptions, removeAllTools } from './agency/handoff.ts'
export type { ModelSettings } from './agency/model-settings.ts'
export type { JsonSchemaOutput, OutputFormat } from './agency/output-format.ts'
export type { ListedTool, ToolFilter, ToolServer } from './agency/tool-server.ts'
export { ask, type AskOptions, askStreamed } from './ask.ts'
export { chain, type Flow, type FlowKind, type FlowOption } from './agency/flow.ts'
export { newMessagesForClient } from './history/history.ts'
export { looseHalf } from './history/orphans.ts'
export {
  MCPServerStdio,
  type MCPServerStdioOptions,
  MCPServerStreamableHttp,
  type MCPServerStreamableHttpOptions,
} from './mcp/mcp-servers.ts'
export { McpConnections } from './mcp/connections.ts'
export { ToolServerError } from './mcp/tool-server-error.ts'
export { enableHostedMcpToolOAuth } from './agency/hosted-tool-oauth.ts'
export type { OAuthAccess } from './mcp/oauth-access.ts'
export {
  MCPServerOAuth,
  type MCPServerOAuthOptions,
  type OAuthServerSettings,
  settingsOf,
} from './agency/oauth-server.ts'
export { oauthServersOf, type ProtectedServer } from './agency/protected-servers.ts'
export { serverTools } from './mcp/server-tools.ts'
export { type AuthorizationRequest, type Authorize, SignInFailed, type SignInFailure } from './mcp/sign-in.ts'
export { tryLock } from './tokens/file-lock.ts'
export { keyOfFolder } from './tokens/key-file.ts'
export { readSealKey } from './tokens/seal-file.ts'
export { FileTokenStore, type FileTokenStoreOptions } from './tokens/token-store.file.ts'
export type { CredentialsKey, StoredCredentials, TokenStore } from './tokens/token-store.ts'
export { summaryMessage } from './run/summarize-history.ts'
export { makeFolder } from './make-folder.ts'
export { messageTool, type MessageTool, type MessageToolOptions } from './agency/message-tool.ts'
export { isLanguageModel, type LanguageModel, languageModelName, type ProviderTool } from './agency/language-model.ts'
export type { ClientConfig } from './models/client-config.ts'
export {
  chargedVendor,
  isProvider,
  lacksModel,
  otherProviderOf,
  unknownProvider,
  VENDORS,
  vendorsOf,
} from './models/model-vendor.ts'
export {
  DEFAULT_MODEL,
  DEMO_MODEL,
  lacksAddress,
  type ModelAccess,
  type ModelApi,
  VENDOR_BASE_URL,
} from './models/resolve-model.ts'
export { type ModelProblem, modelProblems } from './models/model-problems.ts'
export { endpointUrl } from './models/responses.ts'
export { providerAddressNames } from './models/third-party-providers.ts'
export { skippedOverride } from './models/skipped-override.ts'
export { ModelError, type ModelErrorCode } from './models/model-error.ts'
export type { ModelCallObserver, ModelCallOptions, ModelTransport, ResponsesRequest } from './agency/model-object.ts'
export { ResponseEventWriter, type ResponseUsage } from './models/response-events.ts'
export { usageOfRealtimeResponse } from './models/pricing.ts'
export type { OnToolFailure, RunEnvironment, RunSink } from './run/run-setup.ts'
export type { RunJournal, RunResume } from './run/run-journal.ts'
export { RUN_STATE_VERSION, RunState } from './run/run-state.ts'
export {
  type ApprovalOptions,
  decideCalls,
  editProblem,
  type HeldDecision,
  type HeldRun,
  resumeInHistory,
  type WaitingCall,
  waitingCalls,
  messagesWhileWaiting,
} from './run/held-run.ts'
export { runAgency, type RunOptions } from './run-agency.ts'
export { RunControl } from './run/run-control.ts'
export { RunStopped } from './run/run-errors.ts'
export { loggedFailure } from './run/run-failure.ts'
export type { CallerFunction, CallerOptions, Overflow, RunInput } from './run/run-input.ts'
export { type AgencyContext, createRunContext, type RunContext, type ToolContext } from './agency/run-context.ts'
export { problemOfTool, problemOfUse } from './agency/refused-definitions.ts'
export { SharedState, sharedStateProblem } from './agency/shared-state.ts'
export { limitedResult, limitedText, MAX_OUTPUT_CHARACTERS } from './loop/limited-output.ts'
export { type FunctionTool, type HostedTool, TOOL_FAILURE, ToolInputError } from './agency/function-tool.ts'
export {
  type AgentTool,
  type AnyTool,
  callTool,
  definitionOf,
  tool,
  Tool,
  type ToolClass,
  type ToolDefinition,
  toAgentTools,
} from './agency/tool.ts'
export type { Content, ResponseFacts, RunObserver, RunSpan, RunStep, StepEnd } from './trace/trace-step.ts'
export { AnyFunction, Milliseconds, nearestName, type OptionChecks, readOptions } from './options.ts'
