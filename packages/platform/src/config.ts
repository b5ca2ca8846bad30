import { ConfigError } from '@bureau/protocol'
import {
  addressSetting,
  PeerEnvironment,
  CLOSE_MARGIN_MS,
  ObservabilityEnvironment,
  parseS3Url,
  readEnvironment,
} from '@bureau/runtime'
import { z } from 'zod'
import { parseMasterKey } from './security/master-key.ts'

const MIB = 1_048_576

const listOf = (text: string | undefined): string[] => (text ?? '').split(',').flatMap((part) => part.trim() || [])

const whole = (min: number, max: number) => z.coerce.number().int().min(min).max(max)
const address = addressSetting(/^https?:\/\//, 'https://api.example.com').transform((url) => url.replace(/\/+$/, ''))
const POSTGRES = 'postgres://bureau:password@127.0.0.1:5432/bureau'

/** Text that a function reads, whose ConfigError names the variable and says what is wrong. */
const readBy = (read: (text: string) => unknown) =>
  z.string().superRefine((text, context) => {
    try {
      read(text)
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      context.addIssue(error.message.replace(/^[A-Z_]+: /, '').replace(/\.$/, ''))
    }
  })

/** Text with members by commas, each of which must be something. */
const listed = (isOne: (text: string) => boolean, what: string) =>
  z.string().superRefine((text, context) => {
    for (const one of listOf(text)) if (!isOne(one)) context.addIssue(`"${one}" is not ${what}`)
  })

const masterKey = readBy((text) => parseMasterKey(text, 'PLATFORM_MASTER_KEY'))

/** Everything the hosted platform reads from its environment. */
export const PlatformEnvironment = z.object({
  BUREAU_DATA: z.string().default('.bureau').describe('Folder of the embedded database, the master key and files.'),
  DATABASE_URL: addressSetting(/^(postgres(ql)?:\/\/|pglite:)/, POSTGRES)
    .optional()
    .describe('`postgres://…` for several processes. Default: the embedded database in BUREAU_DATA.'),
  DATABASE_CONNECTIONS: whole(2, 1_000)
    .optional()
    .describe('Connections of one process to PostgreSQL. Default: 10, with `?pgbouncer=true` 5.'),
  DATABASE_DIRECT_URL: addressSetting(/^postgres(ql)?:\/\//, POSTGRES)
    .optional()
    .describe(
      'The same PostgreSQL without a pooler in between: each process keeps one connection there, by which the others ' +
        'notice its death within a second. Default: DATABASE_URL, unless that says `?pgbouncer=true`.',
    ),
  REDIS_URL: addressSetting(/^rediss?:\/\//, 'redis://127.0.0.1:6379')
    .optional()
    .describe('Carries live events and wake-ups between processes. Not needed by one process, nor to start.'),
  FILES_URL: readBy(parseS3Url)
    .optional()
    .describe(
      'Bucket for uploads and inline images, of any S3 service: `s3://bucket/prefix?region=…&endpoint=…`. ' +
        'Credentials are those of `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or of the machine. Default: BUREAU_DATA.',
    ),
  PUBLIC_BASE_URL: address.optional().describe('Where clients reach the API. Default: the host that a request names.'),
  PUBLIC_STREAM_URL: address.optional().describe('Where clients reach streams. Default: PUBLIC_BASE_URL.'),
  PLATFORM_ID: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/, 'must be 1 to 64 characters of A-Z a-z 0-9 . _ -')
    .default('bureau')
    .describe('Names this installation in its API keys. Keys of another one are refused.'),
  PLATFORM_MASTER_KEY: masterKey
    .optional()
    .describe('Wraps all other keys: 32 bytes in hexadecimal or base64. Default: `master.key` in BUREAU_DATA.'),
  PLATFORM_NEW_MASTER_KEY: masterKey
    .optional()
    .describe('What `bureau rotate-master-key` puts in its place. Default: a new key in `master.key` of BUREAU_DATA.'),
  PLATFORM_OPERATOR_KEY: z
    .string()
    .min(32)
    .optional()
    .describe('Opens /v1/admin: owners and their API keys. At least 32 characters. Default: nobody may.'),
  PLATFORM_CORS_ORIGINS: listed((text) => URL.parse(text)?.origin === text, 'an origin like https://app.example.com')
    .optional()
    .describe('Origins, by commas, that browsers may call from. Default: none.'),
  PLATFORM_REQUESTS_PER_MINUTE: whole(1, 1_000_000).default(30_000).describe('Requests a minute of one API key.'),
  PLATFORM_REQUEST_BURST: whole(1, 1_000_000).default(2_000).describe('Requests of one API key that may come at once.'),
  ...PeerEnvironment,
  ...ObservabilityEnvironment,
  PLATFORM_MAX_ACTIVE_RUNS: whole(1, 100_000)
    .optional()
    .describe('Runs of one process at a time. Default: 300 on the embedded database, otherwise 500.'),
  PLATFORM_MAX_LAG_MS: whole(0, 60_000)
    .default(500)
    .describe('Mean delay of the event loop from which no run is admitted; 0: no limit.'),
  PLATFORM_MAX_UPLOAD_BYTES: whole(1, 512 * MIB)
    .default(100 * MIB)
    .describe('Largest file of an upload.'),
  PLATFORM_ATTACHMENT_PORTS: listed((text) => /^\d{1,5}$/.test(text), 'a port')
    .default('443')
    .describe('Ports, by commas, that URLs of attachments may have.'),
  PLATFORM_APPROVAL_SECONDS: whole(1, 31_536_000)
    .default(604_800)
    .describe('How long a person may take to decide about a call. Default: 7 days.'),
  PLATFORM_DRAIN_SECONDS: whole(0, 3_600)
    .default(30)
    .describe(
      'How long running responses may take after a stop. Runs that are still unfinished then go on in another process.',
    ),
  PLATFORM_SIGN_IN_SECONDS: whole(1, 600)
    .default(600)
    .describe('How long a user may take to sign in to a tool server.'),
  PLATFORM_SIGN_IN_PAGE: z
    .enum(['on', 'off'])
    .default('on')
    .describe(
      'Whether sign-ins begin at `/auth/start/…` beside the callback, and end only in the browser that began them. ' +
        'off: for a front that hands on nothing but the callback.',
    ),
  OAUTH_CALLBACK_URL: address
    .optional()
    .describe(
      'Where identity providers send users back to. Default: `/auth/callback` of PUBLIC_BASE_URL, else of the address that `bureau` listens on.',
    ),
  BUREAU_CONSOLE: z.stringbool('must be true or false').default(true).describe('false: no console at /console.'),
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .default('info')
    .describe('What the platform logs at least.'),
  NODE_ENV: z.string().optional().describe('production: unsafe defaults are refused.'),
})

/**
 * Reads and checks the environment; empty values count as absent.
 *
 * @throws ConfigError with every problem, and what to set.
 */
export function loadPlatformConfig(environment: NodeJS.ProcessEnv = process.env) {
  const env = readSafely(environment)
  const databaseUrl = env.DATABASE_URL ?? `pglite:${env.BUREAU_DATA}`
  return Object.freeze({
    dataFolder: env.BUREAU_DATA,
    databaseUrl,
    /** Undefined: as the database chooses. */
    databaseConnections: env.DATABASE_CONNECTIONS,
    /** The database itself, past any pooler. Undefined: it is embedded, or only a pooler can be reached. */
    directUrl: directUrlOf(env, databaseUrl),
    redisUrl: env.REDIS_URL,
    /** A bucket, `s3://…`. Undefined: files are in the data folder. */
    filesUrl: env.FILES_URL,
    /** Undefined: the host that a request names. */
    publicBaseUrl: env.PUBLIC_BASE_URL,
    publicStreamUrl: env.PUBLIC_STREAM_URL ?? env.PUBLIC_BASE_URL,
    platformId: env.PLATFORM_ID,
    /** Undefined: the file in the data folder. */
    masterKey: masterKeyOf(env, 'PLATFORM_MASTER_KEY'),
    /** What is to replace the master key. Undefined: a new one in the file. */
    newMasterKey: masterKeyOf(env, 'PLATFORM_NEW_MASTER_KEY'),
    corsOrigins: listOf(env.PLATFORM_CORS_ORIGINS),
    rates: { perMinute: env.PLATFORM_REQUESTS_PER_MINUTE, burst: env.PLATFORM_REQUEST_BURST },
    trustedProxies: env.BUREAU_TRUSTED_PROXIES,
    wrongKeysPerMinute: env.BUREAU_WRONG_KEYS_PER_MINUTE,
    maxActiveRuns: env.PLATFORM_MAX_ACTIVE_RUNS ?? (isPostgres(databaseUrl) ? 500 : 300),
    maxLagMs: env.PLATFORM_MAX_LAG_MS,
    maxUploadBytes: env.PLATFORM_MAX_UPLOAD_BYTES,
    attachmentPorts: listOf(env.PLATFORM_ATTACHMENT_PORTS).map(Number),
    /** How long a person may take to decide about a call. */
    approvalMs: env.PLATFORM_APPROVAL_SECONDS * 1_000,
    /** How long running responses may take after a stop signal. */
    drainMs: env.PLATFORM_DRAIN_SECONDS * 1_000,
    /** When connections are cut at the latest: after the drain, what it ended is still to be recorded and sent. */
    closeMs: env.PLATFORM_DRAIN_SECONDS * 1_000 + CLOSE_MARGIN_MS,
    signInTimeoutMs: env.PLATFORM_SIGN_IN_SECONDS * 1_000,
    /** Sign-ins begin at a page of ours, and end in the browser that showed it. */
    signInPage: env.PLATFORM_SIGN_IN_PAGE === 'on',
    allowedHosts: env.BUREAU_ALLOWED_HOSTS,
    console: env.BUREAU_CONSOLE,
    logLevel: env.LOG_LEVEL,
    /** Undefined: there are no routes of the operator. */
    operatorKey: env.PLATFORM_OPERATOR_KEY,
    /** Whether there are metrics for the operator. */
    metrics: env.BUREAU_METRICS,
    /** Where traces of runs go. Undefined: nowhere. */
    tracesEndpoint: env.OTEL_EXPORTER_OTLP_ENDPOINT,
    /** Reads one variable: client credentials of tool servers have names of the operator's choosing. */
    read: (name: string): string | undefined => environment[name] || undefined,
  })
}

export type PlatformConfig = ReturnType<typeof loadPlatformConfig>

function directUrlOf({ DATABASE_DIRECT_URL: direct }: Environment, databaseUrl: string): string | undefined {
  if (!isPostgres(databaseUrl)) return undefined
  const isPooled = URL.parse(databaseUrl)?.searchParams.get('pgbouncer') === 'true'
  return direct ?? (isPooled ? undefined : databaseUrl)
}

type Environment = z.output<typeof PlatformEnvironment>

function masterKeyOf(
  env: Environment,
  name: 'PLATFORM_MASTER_KEY' | 'PLATFORM_NEW_MASTER_KEY',
): Uint8Array | undefined {
  const text = env[name]
  return text === undefined ? undefined : parseMasterKey(text, name)
}

/** @throws ConfigError what is wrong by itself, and, of the other variables, what is unsafe. */
function readSafely(environment: NodeJS.ProcessEnv): Environment {
  let problems = unsafe(environment)
  try {
    const env = readEnvironment(PlatformEnvironment, environment)
    if (problems.length === 0) return env
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const wrong = error.message.split('\n')
    const names = new Set(wrong.map(nameIn))
    problems = [...wrong, ...problems.filter((problem) => !names.has(nameIn(problem)))]
  }
  throw new ConfigError(problems.join('\n'))
}

const nameIn = (problem: string): string => problem.slice(0, problem.indexOf(':'))

/** What is convenient on a laptop and wrong where others depend on it. */
function unsafe(env: NodeJS.ProcessEnv): string[] {
  if (env['NODE_ENV'] !== 'production') return []
  const problems: string[] = []
  if (!env['PUBLIC_BASE_URL']?.startsWith('https://')) {
    problems.push(
      'PUBLIC_BASE_URL: set the https:// address of the API. Without it, links name whatever host a request names.',
    )
  }
  if (env['PUBLIC_STREAM_URL'] && !env['PUBLIC_STREAM_URL'].startsWith('https://')) {
    problems.push('PUBLIC_STREAM_URL: set an https:// address, or leave it out.')
  }
  if (isPostgres(env['DATABASE_URL']) && !env['PLATFORM_MASTER_KEY']) {
    problems.push(
      'PLATFORM_MASTER_KEY: set 32 bytes, e.g. of `openssl rand -hex 32`, and keep them apart from the database. ' +
        'A key that lies on one machine is no use to the others, nor to a backup.',
    )
  }
  if (listOf(env['BUREAU_ALLOWED_HOSTS']).some((entry) => entry === '0.0.0.0/0' || entry === '::/0')) {
    problems.push(
      'BUREAU_ALLOWED_HOSTS: name single hosts or networks. All addresses would open your network to callers.',
    )
  }
  return problems
}

const isPostgres = (url: string | undefined): boolean => /^postgres(ql)?:\/\//.test(url ?? '')

/** What is known only once the platform listens. */
export type StartUp = {
  /** Where it listens. Undefined until it listens. */
  address?: string
}
