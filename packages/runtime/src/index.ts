export { type Backends, openBackends } from './backends.ts'
export { createEgressPolicy, type EgressPolicy, type EgressPolicyOptions } from './egress/address-policy.ts'
export { ByteBudget } from './egress/byte-budget.ts'
export { checkUrl, isPrivateName, peerOf, type UrlRules } from './egress/check-url.ts'
export { EgressError, type EgressReason } from './egress/egress-error.ts'
export { GuardedDispatcher, type GuardedDispatcherOptions } from './egress/guarded-dispatcher.ts'
export { safeFetch, type SafeFetchOptions } from './egress/safe-fetch.ts'
export { AttachmentError, type AttachmentProblem, shown } from './files/attachment-error.ts'
export { isFileName } from './files/file-name.ts'
export { openLocalFileStore } from './files/file-store.local.ts'
export type { FileStore, OpenedFile, PutOptions, StoredFile } from './files/file-store.ts'
export {
  type AttachmentKind,
  contentMatches,
  extensionOf,
  type FileType,
  findFileType,
  sniffFileType,
} from './files/file-types.ts'
export { usableDirectories } from './files/local-files.ts'
export type { AttachmentSources } from './files/name-attachments.ts'
export {
  findProviderFile,
  type ProviderFile,
  type ProviderFilesAccess,
  readProviderFile,
} from './files/provider-files.ts'
export { type Attachment, readAttachments, type ReadAttachmentsOptions } from './files/read-attachments.ts'
export {
  deleteUploads,
  type FailedDeletion,
  uploadAttachments,
  type UploadedAttachment,
} from './files/upload-attachments.ts'
export { type ApiInfo, apiDocument, type ApiStyle, headersOf } from './http/api-document.ts'
export { errorGate, type ErrorHandler, notFoundGate, refuseMalformed, type Refused } from './http/error-gate.ts'
export type { RouteSpec, SuccessBody } from './http/route.ts'
export {
  type Answered,
  type Call,
  created,
  type InputCodes,
  NO_CONTENT,
  ok,
  param,
  patternOf,
  type Route,
  routesOf,
} from './http/route.ts'
export { methodsAt, type RouteSettings, serveRoutes } from './http/serve-routes.ts'
export { answerCompletely, NO_SNIFFING } from './http/answers.ts'
export { type ApiDocs, apiDocsRoutes } from './http/api-docs.ts'
export { readBearer, sameSecret } from './http/bearer.ts'
export { ClientEnvironment } from './http/client-environment.ts'
export { GuessLimiter } from './http/guess-limiter.ts'
export { parseJson, readJson, readJsonBodies, requirePlain } from './http/json-body.ts'
export { InvalidJson, JsonLimitExceeded } from './http/invalid-json.ts'
export { endOfString, type JsonLimits } from './http/json-limits.ts'
export { checkAddress, CLOSE_MARGIN_MS, listen, type ListenOptions } from './http/listen.ts'
export { RateLimiter, rateLimited, type RateState } from './http/rate-limiter.ts'
export { type BodyLimits, BodyReceiver } from './http/receive-body.ts'
export { streamResponse, type StreamedResponse } from './http/stream-response.ts'
export type { Tickets } from './tickets/tickets.ts'
export { MemoryTickets } from './tickets/tickets.memory.ts'
export { createLogger, type Logger, type LogLevel } from './log.ts'
export {
  authorizeThrough,
  type CallbackOutcome,
  type CallbackQuery,
  receiveCallback,
  SIGN_IN_TIMEOUT_MS,
} from './oauth/authorization.ts'
export { answerSignIn, CallbackParameters, sendSignInPage, SignedIn, takeCallback } from './oauth/sign-in-callback.ts'
export { PAGE_HEADERS, startPage, wantsPage } from './oauth/callback-page.ts'
export { guardedFetch, type GuardedFetch } from './oauth/guarded-fetch.ts'
export { logFailures } from './oauth/log-failure.ts'
export type {
  AuthorizationFlow,
  Completed,
  FlowAnswer,
  FlowStatus,
  NewFlow,
  OAuthStateRegistry,
  Waited,
} from './oauth/oauth-state-registry.ts'
export { MemoryOAuthStateRegistry } from './oauth/oauth-state-registry.memory.ts'
export { RedisOAuthStateRegistry } from './oauth/oauth-state-registry.redis.ts'
export {
  ANOTHER_BROWSER,
  browserCookie,
  expiredBrowserCookie,
  isBeginningBrowser,
  throughStartPage,
} from './oauth/sign-in-browser.ts'
export { type CallbackAnswer, tellCallback } from './oauth/tell-callback.ts'
export { connectRedis, type ConnectRedisOptions, type RedisConnection } from './redis/connect-redis.ts'
export { RunLog, type RunEventBatches } from './runs/run-log.ts'
export type { CancelOutcome, CancelRequest, LiveRun, RunRegistry } from './runs/run-registry.ts'
export { MemoryRunRegistry } from './runs/run-registry.memory.ts'
export { RedisRunRegistry, type RedisRunRegistryOptions } from './runs/run-registry.redis.ts'
export { startRun, type StartRun } from './runs/start-run.ts'
