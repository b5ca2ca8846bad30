/** The contents of JSON columns and in columns with a fixed set of words. */

export type IntegrationSettings = {
  readonly description: string | null
  readonly onDisconnect: 'continue' | 'cancel'
  /** Absent in older records: resume. */
  readonly whenRunnerLost?: WhenRunnerLost
  readonly chatBinding: 'none' | 'consumer'
  /** Completions are for registered consumers only. Absent in older records: false. */
  readonly membersRequired?: boolean
  /** Pages that may use tokens of consumers. Absent in older records: none. */
  readonly allowedOrigins?: readonly string[]
  /** Tools about whose calls the consumer who has asked may decide. Absent in older records: none. */
  readonly consumerApprovals?: readonly string[]
  readonly runTimeoutSeconds: number
  readonly maxTurns: number
  /** Of a chat's history, as models get it. Absent in older records: 100,000. */
  readonly historyTokens?: number
  readonly retentionDays: number | null
  readonly disabled: boolean
  /** 0: the integration has no storage. */
  readonly storageQuotaBytes: number
}

/** What a run was admitted with. It keeps these, whatever becomes of the integration. */
export type RunSettings = {
  readonly agencyId: string
  readonly onDisconnect: 'continue' | 'cancel'
  /** Absent in older records: resume. */
  readonly whenRunnerLost?: WhenRunnerLost
  readonly runTimeoutSeconds: number
  readonly maxTurns: number
  /** Absent in older records: 100,000. */
  readonly historyTokens?: number
}

/** Whether another process goes on with a run whose process has died, or the run fails. */
type WhenRunnerLost = 'resume' | 'fail'

export type RunInputRecord = {
  readonly settings: RunSettings
  readonly sandboxFiles: readonly { readonly name: string; readonly path: string }[]
}

/**
 * `waiting`: a person has to decide; the run holds its chat and no process. `reserved`: admitted by a server of an earlier version
 * and begun by none; runs are `running` from their admission on.
 */
export type RunState = 'reserved' | 'running' | 'waiting' | 'completed' | 'failed' | 'cancelled'
export type AttachmentState = 'pending' | 'ok' | 'excluded' | 'needs_refresh'
export type LedgerKind = 'debit' | 'refund' | 'grant' | 'correction' | 'backfill' | 'carry'
