import type { Agency, RunEnvironment } from '@bureau/framework'
import type { FileStores, GuessLimiter, Logger, Observability, RateLimiter, RunLogs } from '@bureau/runtime'
import type { AttachmentAccess } from './attachments/attachment-access.ts'
import type { BlobStore } from './attachments/blob-store.ts'
import type { RunExecutor } from './runs/execute/run-executor.ts'
import type { PlatformConfig, StartUp } from './config.ts'
import type { Overload } from './http/overload.ts'
import type { AgencyMounts } from './mount/agency-mounts.ts'
import type { StagedUploads } from './mount/staged-uploads.ts'
import type { SignIns } from './oauth/open-sign-ins.ts'
import type { PlatformStore } from './platform-store.ts'
import type { Replica } from './runs/recover/replica.ts'
import type { ControlChannel } from './system/control-channel.ts'
import type { WebhookDeliverer } from './webhooks/webhook-deliverer.ts'

/** What the routes and operations of the platform share. */
export type Platform = {
  readonly config: PlatformConfig
  readonly store: PlatformStore
  /** The agencies of this deployment, by the id that integrations name. */
  readonly agencies: ReadonlyMap<string, Agency>
  readonly environment: RunEnvironment
  readonly replica: Replica
  readonly logs: RunLogs
  /** Tells other processes. */
  readonly control: ControlChannel
  /** The runs of this process. */
  readonly executor: RunExecutor
  /** How attachments are fetched, and which addresses they may have. */
  readonly attachmentAccess: AttachmentAccess
  /** Where the platform keeps files. */
  readonly files: FileStores
  /** Inline images. */
  readonly blobs: BlobStore
  /** The persistent files of the integrations. */
  readonly mounts: AgencyMounts
  /** Uploads that are not complete. */
  readonly staged: StagedUploads
  readonly webhooks: Pick<WebhookDeliverer, 'wake' | 'close'>
  readonly rates: RateLimiter
  /** Slows whoever tries API keys and upload tokens. */
  readonly guesses: GuessLimiter
  readonly overload: Overload
  readonly signIns: SignIns
  /** What the operator sees of the runs of this process. */
  readonly observability: Observability
  readonly startUp: StartUp
  readonly log: Logger
}
