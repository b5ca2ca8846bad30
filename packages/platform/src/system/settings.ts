import type { PlatformSettings, SettingsFeature, SettingsLimit } from '@bureau/protocol'
import type { PlatformConfig, PlatformEnvironment } from '../config.ts'
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
  return [
    limit('PLATFORM_MAX_ACTIVE_RUNS', 'Runs of one process at a time', config.maxActiveRuns, 'runs'),
    limit('PLATFORM_REQUESTS_PER_MINUTE', 'Requests of one API key in a minute', config.rates.perMinute, 'requests'),
    limit('PLATFORM_REQUEST_BURST', 'Requests of one API key at once', config.rates.burst, 'requests'),
    limit('PLATFORM_MAX_UPLOAD_BYTES', 'Largest upload', config.maxUploadBytes, 'bytes'),
    limit(
      'PLATFORM_APPROVAL_SECONDS',
      'A person may take to decide about a call',
      config.approvalMs / 1_000,
      'seconds',
    ),
    limit(
      'PLATFORM_SIGN_IN_SECONDS',
      'A user may take to sign in to a tool server',
      config.signInTimeoutMs / 1_000,
      'seconds',
    ),
    limit('PLATFORM_DRAIN_SECONDS', 'Runs may take to end after a stop', config.drainMs / 1_000, 'seconds'),
    limit(
      'PLATFORM_MAX_LAG_MS',
      'Delay of the event loop from which no run is admitted; 0: no limit',
      config.maxLagMs,
      'milliseconds',
    ),
    limit(
      'BUREAU_WRONG_KEYS_PER_MINUTE',
      'Wrong keys of one address in a minute',
      config.wrongKeysPerMinute,
      'attempts',
    ),
  ]
}

type Setting = keyof typeof PlatformEnvironment.shape

const limit = (name: Setting, about: string, value: number, unit: SettingsLimit['unit']): SettingsLimit => ({
  name,
  about,
  value,
  unit,
})

function featuresOf(config: PlatformConfig, engine: string): SettingsFeature[] {
  return [
    { name: 'DATABASE_URL', about: 'PostgreSQL, for several processes', on: engine === 'postgres' },
    { name: 'REDIS_URL', about: 'Live events between processes', on: config.redisUrl !== undefined },
    { name: 'PLATFORM_SIGN_IN_PAGE', about: 'Sign-ins begin at a page of ours', on: config.signInPage },
    { name: 'PLATFORM_CORS_ORIGINS', about: 'Pages of other origins may call', on: config.corsOrigins.length > 0 },
    { name: 'PLATFORM_OPERATOR_KEY', about: 'Routes of the operator', on: config.operatorKey !== undefined },
  ]
}
