import { z } from 'zod'
import { GivenTime, Id, PageQuery, queryNumber, Time } from './platform-fields.ts'
import { Usage } from './usage.ts'

/** Files of the agency mount, and usage. */

export const CreateAgencyUploadRequest = z
  .object({
    apiIntegrationId: Id,
    name: z.string().describe('File name without a directory path.'),
    size: z.int().min(0).describe('Bytes of the content.'),
    contentType: z
      .string()
      .max(255)
      .regex(/^(?:[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?: *;[ -~]*)?)?$/, 'must be a media type such as text/csv')
      .optional()
      .describe('The header with which the content is to be sent.'),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits')
      .optional()
      .describe('What the content must have.'),
  })
  .meta({ id: 'CreateAgencyUploadRequest' })

export const AgencyUpload = z
  .object({
    uploadId: z.string(),
    path: z.string().describe('For `sandboxFiles`, once the content is there.'),
    name: z.string(),
    uploadUrl: z
      .string()
      .nullable()
      .describe('Carries its own token; send the content here. Null when an Idempotency-Key is repeated.'),
    method: z.literal('PUT'),
    headers: z.record(z.string(), z.string()),
    maxBytes: z.int(),
    expiresAt: Time,
    status: z.literal('pending'),
  })
  .meta({ id: 'AgencyUpload' })
export type AgencyUpload = z.output<typeof AgencyUpload>

export const StoredUpload = z
  .object({
    uploadId: z.string(),
    path: z.string(),
    name: z.string(),
    size: z.int(),
    sha256: z.string(),
    status: z.literal('ready'),
  })
  .meta({ id: 'StoredUpload' })
export type StoredUpload = z.output<typeof StoredUpload>

/** A token of any length is right or wrong (401), never malformed. */
export const UploadQuery = z.object({ token: z.string().optional() })

export const MountFile = z
  .object({ path: z.string(), name: z.string(), size: z.int(), modifiedAt: Time })
  .meta({ id: 'MountFile' })
export type MountFile = z.output<typeof MountFile>

export const FileListQuery = PageQuery.extend({ prefix: z.string().max(1024).optional() })
export const FileQuery = z.strictObject({ path: z.string().max(1024) })

export const UsageRecord = z
  .object({
    object: z.literal('usage_record'),
    runId: z.string(),
    chatId: z.string(),
    apiIntegrationId: z.string(),
    consumerId: z.string().nullable(),
    usageRequestId: z.string().nullable(),
    agent: z.string(),
    status: z.enum(['queued', 'running', 'waiting', 'cancelling', 'completed', 'failed', 'cancelled']),
    createdAt: Time,
    finishedAt: Time.nullable(),
    usage: Usage,
    debited: z.object({ messages: z.int(), tokens: z.int(), costUsd: z.number() }),
    refunded: z.boolean(),
    periodStart: Time.nullable(),
    models: z.array(z.object({ model: z.string(), priced: z.boolean(), usage: Usage })),
  })
  .meta({ id: 'UsageRecord' })
export type UsageRecord = z.output<typeof UsageRecord>

const range = {
  from: GivenTime.optional().describe('Included.'),
  to: GivenTime.optional().describe('Excluded.'),
}

export const UsageRecordsQuery = PageQuery.extend({
  apiIntegrationId: Id.optional(),
  consumerId: Id.optional(),
  usageRequestId: Id.optional(),
  ...range,
})

export const UsageSummaryQuery = z.strictObject({
  groupBy: z.enum(['day', 'integration', 'consumer', 'model']),
  apiIntegrationId: Id.optional(),
  timeZone: z.string().max(64).optional().describe('IANA name, for groupBy=day. Default UTC.'),
  limit: queryNumber(z.int().min(1).max(10_000))
    .optional()
    .describe('Only so many keys: those that cost most, first. Default: up to 10,000, in the order of the keys.'),
  ...range,
})

export const UsageSummary = z
  .object({
    object: z.literal('usage_summary'),
    data: z.array(z.object({ key: z.string().nullable(), usage: Usage, runs: z.int(), failedRuns: z.int() })),
  })
  .meta({ id: 'UsageSummary' })
export type UsageSummary = z.output<typeof UsageSummary>

export const UsageExportQuery = z.strictObject({
  format: z.enum(['csv', 'jsonl']),
  apiIntegrationId: Id.optional(),
  ...range,
})
