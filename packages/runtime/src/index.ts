export { BriefMap } from './brief-map.ts'
export { openBackends } from './backends.ts'
export { createEgressPolicy, type EgressPolicy, type EgressPolicyOptions } from './egress/address-policy.ts'
export { ByteBudget } from './egress/byte-budget.ts'
export { checkUrl, isPrivateName, peerOf } from './egress/check-url.ts'
export { EgressError, type EgressReason } from './egress/egress-error.ts'
export { GuardedDispatcher, type GuardedDispatcherOptions } from './egress/guarded-dispatcher.ts'
export { checkReceiver, isDelivered, postToReceiver, RECEIVER_TIMEOUT_MS } from './egress/post-to-receiver.ts'
export { safeFetch } from './egress/safe-fetch.ts'
export { AttachmentError, type AttachmentProblem, shown } from './files/attachment-error.ts'
export { isFileName } from './files/file-name.ts'
export { localFileStores } from './files/file-store.local.ts'
export { openS3FileStores } from './files/file-store.s3.ts'
export type { FileStore, PutOptions, StoredFile } from './files/file-store.ts'
export { parseS3Url } from './files/s3-url.ts'
export type { FileStores } from './files/file-stores.ts'
export { contentMatches, extensionOf, type FileType, findFileType, sniffFileType } from './files/file-types.ts'
export { usableDirectories } from './files/local-files.ts'
export { findProviderFile, type ProviderFilesAccess, readProviderFile } from './files/provider-files.ts'
export { type Attachment, readAttachments } from './files/read-attachments.ts'
export { deleteUploads, uploadAttachments } from './files/upload-attachments.ts'
export { type ApiInfo, apiDocument, type ApiStyle, headersOf } from './http/api-document.ts'
export {
  type ErrorHandler,
  errorGate,
  logRefusal,
  mountOf,
  notFoundGate,
  type PublicError,
  publicError,
  refuseMalformed,
  type Refused,
} from './http/error-gate.ts'
export type { RouteSpec } from './http/route.ts'
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
export { type RouteSettings, servedPaths, serveRoutes } from './http/serve-routes.ts'
export { answerCompletely, NO_SNIFFING } from './http/answers.ts'
export { apiDocsRoutes } from './http/api-docs.ts'
export { guideRoutes } from './http/guide.ts'
export { consoleRoutes } from './http/console-files.ts'
export { readBearer, sameSecret } from './http/bearer.ts'
export { PeerEnvironment } from './http/peer-environment.ts'
export { GuessLimiter } from './http/guess-limiter.ts'
export { parseJson, readJson, readJsonBodies, requirePlain } from './http/json-body.ts'
export { InvalidJson, JsonLimitExceeded } from './http/invalid-json.ts'
export { problemSentence, shortened } from './http/problem-sentence.ts'
export { type JsonLimits } from './http/json-limits.ts'
export { StringEnds } from './http/string-ends.ts'
export { checkAddress, CLOSE_MARGIN_MS, listen } from './http/listen.ts'
export { RateLimiter, rateLimited, type RateState } from './http/rate-limiter.ts'
export { BodyReceiver } from './http/receive-body.ts'
export { onClientLost, streamResponse } from './http/stream-response.ts'
export type { Claims } from './claims/claims.ts'
export type { Tickets } from './tickets/tickets.ts'
export { MemoryTickets } from './tickets/tickets.memory.ts'
export { createLogger, type LogDestination, type Logger, type LogLevel } from './log.ts'
export { authorizeThrough, logFailures } from './oauth/authorization.ts'
export { answerSignIn, CallbackParameters, sendSignInPage, SignedIn, takeCallback } from './oauth/sign-in-callback.ts'
export { PAGE_HEADERS, startPage, wantsPage } from './oauth/callback-page.ts'
export { guardedFetch } from './oauth/guarded-fetch.ts'
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
export { type CallbackAnswer, answerCallback } from './oauth/answer-callback.ts'
export type { SessionObserver } from './observability/count-sessions.ts'
export type { Metrics } from './observability/metrics.ts'
export { Observability } from './observability/observability.ts'
export { ObservabilityEnvironment } from './observability/observability-environment.ts'
export type { TracingOptions } from './observability/open-tracing.ts'
export { logRequests, REQUEST_ID_LABEL, requestIdOf } from './observability/request-log.ts'
export { addressSetting, readEnvironment } from './read-environment.ts'
export { connectRedis, type RedisConnection } from './redis/connect-redis.ts'
export { encodeBatches, type EncodeEvent, endingWith } from './run-log/encode-batches.ts'
export { FlushTimer } from './run-log/flush-timer.ts'
export { MemoryRunLogs } from './run-log/run-log.memory.ts'
export { RedisRunLogs } from './run-log/run-log.redis.ts'
export {
  type ChunkStorage,
  type EventBatch,
  type EventChunk,
  lastSeqOf,
  type LogEvent,
  type LogResume,
  type RunLog,
  type RunLogReader,
  type RunLogs,
} from './run-log/run-log.ts'
export { hasEverything, readResumePoint } from './run-log/resume-point.ts'
export { COALESCE_MS, RunRecorder } from './run-log/run-recorder.ts'
export { StoredRunFollower } from './run-log/stored-run-follower.ts'
export { StoredRunLog } from './run-log/stored-run-log.ts'
export { StreamBroken } from './run-log/stream-broken.ts'
export { KeptRuns } from './runs/kept-runs.ts'
export type { LiveRun, RunRegistry } from './runs/run-registry.ts'
export { type FollowedRun, type LoggedRun, type RequestRun, RunHost, type StartRun } from './runs/run-host.ts'
