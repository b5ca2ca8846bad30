import type { AllowancePolicy, Message, RunErrorClass, Usage } from '@bureau/protocol'
import {
  bigint,
  boolean,
  customType,
  date,
  integer,
  jsonb,
  numeric,
  pgTable,
  smallint,
  text,
  timestamp,
} from 'drizzle-orm/pg-core'
import type { AttachmentState, IntegrationSettings, LedgerKind, RunInputRecord, RunState } from './column-types.ts'

/** The tables as the queries see them. Keys, checks and policies are in `migrations/`, which is what is applied. */

const bytea = customType<{ data: Uint8Array; driverData: Uint8Array }>({
  dataType: () => 'bytea',
  // pg answers a Buffer, PGlite a view into its memory: both become bytes of their own.
  fromDriver: (value) => new Uint8Array(value),
})
const count = () => bigint({ mode: 'number' })
const time = () => timestamp({ withTimezone: true, precision: 3, mode: 'date' })

export const owners = pgTable('owners', {
  id: text().primaryKey(),
  name: text().notNull(),
  status: text().$type<'active' | 'suspended'>().notNull().default('active'),
  dekWrapped: bytea().notNull(),
  publishesAgencies: boolean().notNull().default(false),
  createdAt: time().notNull().defaultNow(),
})

export const platformKeys = pgTable('platform_keys', {
  kid: text().primaryKey(),
  alg: text().$type<'EdDSA' | 'HS256'>().notNull(),
  publicKey: bytea(),
  privateEnc: bytea(),
  status: text().$type<'active' | 'verify_only' | 'retired'>().notNull().default('active'),
  createdAt: time().notNull().defaultNow(),
})

export const apiKeys = pgTable('api_keys', {
  id: text().primaryKey(),
  ownerId: text().notNull(),
  name: text().notNull(),
  tokenSha256: bytea().notNull(),
  kid: text().notNull(),
  hint: text().notNull(),
  scopes: text().array().notNull(),
  integrationIds: text().array(),
  createdAt: time().notNull().defaultNow(),
  expiresAt: time(),
  lastUsedAt: time(),
  revokedAt: time(),
})

export const consumerTokenCutoffs = pgTable('consumer_token_cutoffs', {
  ownerId: text().notNull(),
  integrationId: text().notNull(),
  /** Empty: all consumers of the integration. */
  consumerId: text().notNull(),
  notBefore: time().notNull(),
})

export const integrations = pgTable('integrations', {
  id: text().primaryKey(),
  ownerId: text().notNull(),
  name: text().notNull(),
  agencyId: text().notNull(),
  defaultAgent: text().notNull(),
  textOnly: boolean().notNull().default(false),
  allowancesEnabled: boolean().notNull().default(false),
  defaultAllowance: jsonb().$type<AllowancePolicy>().notNull(),
  settings: jsonb().$type<IntegrationSettings>().notNull(),
  version: integer().notNull().default(1),
  deletedAt: time(),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})

export const members = pgTable('members', {
  id: text().primaryKey(),
  ownerId: text().notNull(),
  integrationId: text().notNull(),
  consumerId: text().notNull(),
  status: text().$type<'active' | 'inactive'>().notNull().default('active'),
  limitMessages: count(),
  limitTokens: count(),
  limitCostMicro: count(),
  period: text().$type<AllowancePolicy['period']>().notNull().default('month'),
  timeZone: text().notNull().default('UTC'),
  anchorDay: smallint().notNull().default(1),
  maxConcurrent: integer().notNull().default(10),
  activeRuns: integer().notNull().default(0),
  displayName: text(),
  metadata: jsonb().$type<Readonly<Record<string, string>>>().notNull().default({}),
  version: integer().notNull().default(1),
  deletedAt: time(),
  policySource: text().$type<'member' | 'integration_default'>().notNull().default('integration_default'),
  policyVersion: integer().notNull().default(1),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})

export const allowancePeriods = pgTable('allowance_periods', {
  memberId: text().notNull(),
  periodStart: time().notNull(),
  periodEnd: time().notNull(),
  ownerId: text().notNull(),
  usedMessages: count().notNull().default(0),
  usedTokens: count().notNull().default(0),
  usedCostMicro: count().notNull().default(0),
  extraMessages: count().notNull().default(0),
  extraTokens: count().notNull().default(0),
  extraCostMicro: count().notNull().default(0),
})

export const chats = pgTable('chats', {
  id: text().primaryKey(),
  ownerId: text().notNull(),
  integrationId: text().notNull(),
  alias: text(),
  title: text(),
  createdByConsumer: text(),
  nextSeq: count().notNull().default(1),
  lastRunId: text(),
  summary: text(),
  summarizedSeq: count().notNull().default(0),
  deletedAt: time(),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})

export const replicas = pgTable('replicas', {
  bootId: text().primaryKey(),
  hbSeq: count().notNull().default(0),
  state: text().$type<'live' | 'draining' | 'gone' | 'dead'>().notNull().default('live'),
  version: text(),
  lockId: integer(),
  startedAt: time().notNull().defaultNow(),
  heartbeatAt: time().notNull().defaultNow(),
})

export const runs = pgTable('runs', {
  id: text().primaryKey(),
  ownerId: text().notNull(),
  integrationId: text().notNull(),
  chatId: text().notNull(),
  memberId: text(),
  consumerId: text(),
  usageRequestId: text(),
  fingerprint: bytea().notNull(),
  agent: text().notNull(),
  agencyVersion: text(),
  textOnly: boolean().notNull(),
  state: text().$type<RunState>().notNull(),
  bootId: text().notNull(),
  periodStart: time(),
  cancelMode: text().$type<'immediate' | 'after_turn'>(),
  cancelRequestedAt: time(),
  errorCode: text(),
  errorMessage: text(),
  errorClass: text().$type<RunErrorClass>(),
  input: jsonb().$type<RunInputRecord>().notNull(),
  contextEnc: bytea(),
  usage: jsonb().$type<Usage>(),
  lastEventSeq: count().notNull().default(0),
  createdAt: time().notNull().defaultNow(),
  startedAt: time(),
  finishedAt: time(),
  deadlineAt: time().notNull(),
  /** How many processes have worked on it. */
  attempt: integer().notNull().default(1),
  /** Processes that have died over it since its last step. */
  stalled: smallint().notNull().default(0),
  /** Its process has given it up, for any other to go on. */
  released: boolean().notNull().default(false),
  waitingSince: time(),
})

/** How far a run has come: the `RunState` of the framework, as JSON. */
export const runStates = pgTable('run_states', {
  runId: text().primaryKey(),
  ownerId: text().notNull(),
  version: integer().notNull(),
  state: text().notNull(),
})

export const runApprovals = pgTable('run_approvals', {
  runId: text().notNull(),
  ownerId: text().notNull(),
  agentRunId: text().notNull(),
  callId: text().notNull(),
  place: integer().notNull(),
  tool: text().notNull(),
  arguments: text().notNull(),
  agent: text().notNull(),
  edit: boolean().notNull(),
  requestedAt: time().notNull().defaultNow(),
  expiresAt: time().notNull(),
  approve: boolean(),
  reason: text(),
  changedArguments: text(),
  decidedBy: text(),
  decidedAt: time(),
})

export const responses = pgTable('responses', {
  runId: text().notNull(),
  afterSeq: count().notNull(),
  ownerId: text().notNull(),
  record: jsonb().$type<object>().notNull(),
})

export const messages = pgTable('messages', {
  chatId: text().notNull(),
  seq: count().notNull(),
  ownerId: text().notNull(),
  runId: text().notNull(),
  id: text().notNull(),
  role: text().$type<'user' | 'assistant' | 'system' | 'tool'>().notNull(),
  item: jsonb().$type<Message>().notNull(),
  status: text().$type<'ok' | 'failed' | 'cancelled' | 'partial'>().notNull().default('ok'),
  createdAt: time().notNull().defaultNow(),
})

export const messageAttachments = pgTable('message_attachments', {
  id: text().primaryKey(),
  ownerId: text().notNull(),
  chatId: text().notNull(),
  runId: text().notNull(),
  messageSeq: count().notNull(),
  idx: smallint().notNull(),
  kind: text().$type<'input_file' | 'input_image'>().notNull(),
  urlEnc: bytea(),
  urlKey: text(),
  urlParamsHash: bytea(),
  expiresAt: time(),
  blobSha256: bytea(),
  mime: text(),
  filename: text(),
  detail: text().$type<'auto' | 'low' | 'high'>(),
  byteSize: count(),
  state: text().$type<AttachmentState>().notNull().default('pending'),
  refreshedAt: time(),
  createdAt: time().notNull().defaultNow(),
})

export const allowanceLedger = pgTable('allowance_ledger', {
  id: count().generatedAlwaysAsIdentity(),
  ownerId: text().notNull(),
  memberId: text().notNull(),
  periodStart: time().notNull(),
  kind: text().$type<LedgerKind>().notNull(),
  dedupeKey: text().notNull(),
  runId: text(),
  occurredAt: time().notNull(),
  messages: count().notNull().default(0),
  tokens: count().notNull().default(0),
  costMicro: count().notNull().default(0),
  note: text(),
  actor: text(),
  fingerprint: bytea(),
  createdAt: time().notNull().defaultNow(),
})

export const usageEntries = pgTable('usage_entries', {
  runId: text().notNull(),
  callSeq: integer().notNull(),
  ownerId: text().notNull(),
  agent: text().notNull(),
  model: text().notNull(),
  priced: boolean().notNull(),
  inputTokens: count().notNull(),
  cachedTokens: count().notNull().default(0),
  cacheWriteTokens: count().notNull().default(0),
  outputTokens: count().notNull(),
  reasoningTokens: count().notNull().default(0),
  costUsd: numeric({ precision: 20, scale: 10, mode: 'number' }).notNull().default(0),
  createdAt: time().notNull().defaultNow(),
  estimated: boolean().notNull().default(false),
})

const usageSums = {
  runs: count().notNull(),
  failedRuns: count().notNull(),
  requests: count().notNull(),
  inputTokens: count().notNull(),
  cachedTokens: count().notNull(),
  cacheWriteTokens: count().notNull(),
  outputTokens: count().notNull(),
  reasoningTokens: count().notNull(),
  costUsd: numeric({ precision: 24, scale: 10, mode: 'number' }).notNull(),
  estimated: boolean().notNull(),
}

const sumsByModel = {
  ownerId: text().notNull(),
  beginsAt: time().notNull(),
  integrationId: text().notNull(),
  /** Empty: all models of a run. */
  model: text().notNull(),
  ...usageSums,
}

/** Written by `foldUsage` alone. */
export const usageHalfHours = pgTable('usage_half_hours', sumsByModel)

/** Written by a trigger on `usage_half_hours` alone. */
export const usageQuarterDays = pgTable('usage_quarter_days', sumsByModel)

/** Written by `foldUsage` alone. */
export const usageConsumerDays = pgTable('usage_consumer_days', {
  ownerId: text().notNull(),
  /** A UTC day. */
  day: date().notNull(),
  integrationId: text().notNull(),
  /** Empty: no consumer was named. */
  consumerId: text().notNull(),
  ...usageSums,
})

/** Written by the trigger `runs_add_usage_delta`, taken away by `foldUsage`. */
export const usageDeltas = pgTable('usage_deltas', {
  id: count().generatedAlwaysAsIdentity(),
  ownerId: text().notNull(),
  beginsAt: time().notNull(),
  day: date().notNull(),
  integrationId: text().notNull(),
  consumerId: text().notNull(),
  model: text().notNull(),
  ...usageSums,
})

export const runEventChunks = pgTable('run_event_chunks', {
  runId: text().notNull(),
  firstSeq: count().notNull(),
  lastSeq: count().notNull(),
  ownerId: text().notNull(),
  body: bytea().notNull(),
  createdAt: time().notNull().defaultNow(),
})

export const uploads = pgTable('uploads', {
  id: text().primaryKey(),
  ownerId: text().notNull(),
  integrationId: text().notNull(),
  name: text().notNull(),
  path: text().notNull(),
  declaredBytes: count().notNull(),
  receivedBytes: count().notNull().default(0),
  parts: text().array().notNull().default([]),
  sha256: bytea('sha256'),
  contentType: text(),
  tokenHash: bytea().notNull(),
  state: text().$type<'pending' | 'ready' | 'expired' | 'deleted'>().notNull().default('pending'),
  expiresAt: time().notNull(),
  createdAt: time().notNull().defaultNow(),
  completedAt: time(),
})

export const mountUsage = pgTable('mount_usage', {
  integrationId: text().primaryKey(),
  ownerId: text().notNull(),
  usedBytes: count().notNull().default(0),
  reservedBytes: count().notNull().default(0),
  fileCount: count().notNull().default(0),
})

export const idempotencyKeys = pgTable('idempotency_keys', {
  ownerId: text().notNull(),
  apiKeyId: text().notNull(),
  route: text().notNull(),
  key: text().notNull(),
  claim: text().notNull(),
  fingerprint: bytea().notNull(),
  status: smallint(),
  responseEnc: bytea(),
  createdAt: time().notNull().defaultNow(),
  expiresAt: time().notNull(),
})

export const webhookEndpoints = pgTable('webhook_endpoints', {
  id: text().primaryKey(),
  ownerId: text().notNull(),
  url: text().notNull(),
  events: text().array().notNull(),
  secretEnc: bytea().notNull(),
  status: text().$type<'enabled' | 'disabled'>().notNull().default('enabled'),
  failingSince: time(),
  createdAt: time().notNull().defaultNow(),
})

export const webhookDeliveries = pgTable('webhook_deliveries', {
  endpointId: text().notNull(),
  eventId: text().notNull(),
  ownerId: text().notNull(),
  topic: text().notNull(),
  payload: jsonb().$type<Readonly<Record<string, unknown>>>().notNull(),
  announcedAt: time().notNull(),
  state: text().$type<'pending' | 'delivered' | 'failed'>().notNull().default('pending'),
  attempts: integer().notNull().default(0),
  nextAt: time().notNull().defaultNow(),
  responseStatus: integer(),
  createdAt: time().notNull().defaultNow(),
  doneAt: time(),
})

export const pushConfigs = pgTable('push_configs', {
  runId: text().notNull(),
  id: text().notNull(),
  ownerId: text().notNull(),
  url: text().notNull(),
  scheme: text(),
  secretEnc: bytea().notNull(),
  notifiedAt: time(),
  attempts: integer().notNull().default(0),
  nextAt: time().notNull().defaultNow(),
  failingSince: time(),
  closedAt: time(),
  createdAt: time().notNull().defaultNow(),
})

export const outbox = pgTable('outbox', {
  id: count().generatedAlwaysAsIdentity(),
  ownerId: text().notNull(),
  topic: text().notNull(),
  eventId: text().notNull(),
  runId: text(),
  payload: jsonb().$type<Readonly<Record<string, unknown>>>().notNull(),
  attempts: integer().notNull().default(0),
  nextAt: time().notNull().defaultNow(),
  doneAt: time(),
  createdAt: time().notNull().defaultNow(),
})

export const secrets = pgTable('secrets', {
  id: text().primaryKey(),
  ownerId: text().notNull(),
  scope: text().notNull(),
  name: text().notNull(),
  ciphertext: bytea().notNull(),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})

export const leases = pgTable('leases', {
  ownerId: text().notNull(),
  name: text().notNull(),
  holder: text().notNull(),
  expiresAt: time().notNull(),
})

export const auditLog = pgTable('audit_log', {
  id: count().generatedAlwaysAsIdentity(),
  ownerId: text().notNull(),
  actor: text().notNull(),
  action: text().notNull(),
  target: text().notNull(),
  details: jsonb().$type<Readonly<Record<string, unknown>>>().notNull().default({}),
  createdAt: time().notNull().defaultNow(),
})
