export {
  AgencyMetadata,
  CancelMode as CancelModeSchema,
  CancelRequestBody,
  CancelResponse,
  ClientConfig,
  FileUrlsError,
  MAX_HISTORY,
  Refusal,
  RunOfRequest,
  RunOfRequestQuery,
  RunRequest,
  RunResponse,
  ValidationEntry,
  ValidationErrorBody,
} from './agency-api.ts'
export { type ErrorCode, ERRORS, type FieldProblem, ServiceError, type ServiceErrorOptions } from './errors.ts'
export { ConfigError, StartError } from './start-errors.ts'
export { isMessage, isTextDelta, Message, textOf, type WireItem, withoutMetadata } from './message.ts'
export { type Fields, fieldsOf, isFields } from './fields.ts'
export { eventEnvelope } from './event-envelope.ts'
export type {
  ApprovalRequest,
  CancelMode,
  EventSource,
  ModelEvent,
  RunEnded,
  RunError,
  RunEvent,
  RunEventOf,
  RunItemName,
} from './run-event.ts'
export {
  RecentRun,
  RecentRunDetail,
  RecentRunList,
  RecentRunsQuery,
  RecentRunStep,
  RunToolAnswer,
  RunToolRequest,
} from './recent-runs-api.ts'
export {
  type PlatformReplica,
  PlatformSettings,
  ServerSettings,
  type SettingsFeature,
  type SettingsLimit,
} from './settings-api.ts'
export { isRetryable, RUN_ERRORS, type RunErrorClass, type RunErrorCode } from './run-errors.ts'
export { SSE_END, type SseFrame, sseFrame, sseKeepalive, SseParser } from './sse.ts'
export { addUsage, NO_USAGE, Usage, UsageByModel } from './usage.ts'
export {
  ApiErrorResponse,
  ChatError,
  CreateNewChatRequest,
  CreateNewChatResponse,
  GetCompletionV2Request,
  PlatformError,
  RunWords,
} from './platform-api.ts'
export { isTimeZone, listOf, Metadata, PageQuery, queryNumber } from './platform-fields.ts'
export type { WebhookEvent } from './platform-names.ts'
export { DecideApprovals, RunApproval, RunApprovals } from './platform-approvals-api.ts'
export {
  AgencyUpload,
  CreateAgencyUploadRequest,
  FileListQuery,
  FileQuery,
  MountFile,
  StoredUpload,
  UploadQuery,
  UsageExportQuery,
  UsageRecord,
  UsageRecordsQuery,
  UsageSummary,
  UsageSummaryQuery,
} from './platform-files-api.ts'
export {
  ConsumerScope,
  ConsumerToken,
  ConsumerTokenCreate,
  ConsumerTokenRevoke,
  ConsumerTokensRevoked,
} from './platform-consumer-tokens-api.ts'
export {
  AgencyList,
  ApiKey,
  ApiKeyCreate,
  ApiKeyRotate,
  OperatorKeyCreate,
  ApiKeyScope,
  AuditEntry,
  DeleteIntegrationQuery,
  Integration,
  IntegrationCreate,
  IntegrationPatch,
  IssuedApiKey,
} from './platform-integrations-api.ts'
export {
  AdjustmentCreate,
  Allowance,
  AllowancePolicy,
  LedgerEntry,
  LedgerQuery,
  Member,
  MemberBatch,
  MemberBatchResult,
  MemberCreate,
  MemberListQuery,
  MemberPatch,
} from './platform-members-api.ts'
export {
  type AttachmentView,
  CancelRunRequest,
  CancelRunResponse,
  ChatListQuery,
  ChatMessage,
  ChatBranchCreate,
  ChatPatch,
  ChatStatus,
  ChatStatusQuery,
  MessageListQuery,
  PlatformChat,
  PlatformRun,
  type PlatformRunError,
  RunEventsQuery,
  RunListQuery,
  RunQuery,
  RunTextQuery,
} from './platform-runs-api.ts'
export {
  NewWebhookEndpoint,
  WebhookCreate,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookPatch,
  WebhookTest,
} from './platform-webhooks-api.ts'
export { Owner, OwnerCreate, OwnerPatch } from './platform-owners-api.ts'
