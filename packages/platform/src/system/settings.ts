import type { PlatformSettings, SettingsFeature, SettingsLimit } from '@bureau/protocol'
import type { PlatformConfig } from '../config.ts'
import type { Platform } from '../context.ts'
import { listReplicas } from './list-replicas.ts'

/** What the process that answers was started with, without secrets, and which processes there are. */
export async function readSettings({ config, store, replica }: Platform, version: string): Promise<PlatformSettings> {
  return {
    version,
    limits: limitsOf(config),
    features: featuresOf(config, store.db.engine),
    egress: { exceptions: config.allowedHosts.length, attachmentPorts: [...config.attachmentPorts] },
    replicas: await store.db.run(listReplicas, { bootId: replica.bootId }),
  }
}

function limitsOf(config: PlatformConfig): SettingsLimit[] {
  const seconds = 'seconds'
  return [
    {
      name: 'PLATFORM_MAX_ACTIVE_RUNS',
      about: 'Runs of one process at a time',
      value: config.maxActiveRuns,
      unit: 'runs',
    },
    {
      name: 'PLATFORM_REQUESTS_PER_MINUTE',
      about: 'Requests of one API key in a minute',
      value: config.rates.perMinute,
      unit: 'requests',
    },
    {
      name: 'PLATFORM_REQUEST_BURST',
      about: 'Requests of one API key at once',
      value: config.rates.burst,
      unit: 'requests',
    },
    { name: 'PLATFORM_MAX_UPLOAD_BYTES', about: 'Largest upload', value: config.maxUploadBytes, unit: 'bytes' },
    {
      name: 'PLATFORM_APPROVAL_SECONDS',
      about: 'A person may take to decide about a call',
      value: config.approvalMs / 1_000,
      unit: seconds,
    },
    {
      name: 'PLATFORM_SIGN_IN_SECONDS',
      about: 'A user may take to sign in to a tool server',
      value: config.signInTimeoutMs / 1_000,
      unit: seconds,
    },
    {
      name: 'PLATFORM_DRAIN_SECONDS',
      about: 'Runs may take to end after a stop',
      value: config.drainMs / 1_000,
      unit: seconds,
    },
    {
      name: 'PLATFORM_MAX_LAG_MS',
      about: 'Delay of the event loop from which no run is admitted; 0: no limit',
      value: config.maxLagMs,
      unit: 'milliseconds',
    },
    {
      name: 'BUREAU_WRONG_KEYS_PER_MINUTE',
      about: 'Wrong keys of one address in a minute',
      value: config.wrongKeysPerMinute,
      unit: 'attempts',
    },
  ]
}

function featuresOf(config: PlatformConfig, engine: string): SettingsFeature[] {
  return [
    { name: 'DATABASE_URL', about: 'PostgreSQL, for several processes', on: engine === 'postgres' },
    { name: 'REDIS_URL', about: 'Live events between processes', on: config.redisUrl !== undefined },
    { name: 'PLATFORM_SIGN_IN_PAGE', about: 'Sign-ins begin at a page of ours', on: config.signInPage },
    { name: 'PLATFORM_CORS_ORIGINS', about: 'Pages of other origins may call', on: config.corsOrigins.length > 0 },
    { name: 'PLATFORM_OPERATOR_KEY', about: 'Routes of the operator', on: config.operatorKey !== undefined },
  ]
}
