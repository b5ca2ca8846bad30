export {
  type AgencyOptions,
  type AnyAgency,
  type Client,
  createClient,
  type PlatformOptions,
  randomId,
} from './client.ts'
export { BureauError, type BureauErrorCode } from './error.ts'
export { type Part, partsOf } from './parts.ts'
export { type Page, platformApi, type PlatformApi, type UploadOptions } from './platform-api.ts'
export type { Result } from './result.ts'
export type { Run } from './run.ts'
export type { Started } from './run-begin.ts'
export { type Histories, historiesIn, type RunStorage, type Unanswered } from './run-store.ts'
export type { HistoryEntry, HistoryPage, Input } from './server.ts'
export { onWake } from './wake.ts'
export type { Approval, Item, ModelEvent, StreamEvent } from './stream-event.ts'
