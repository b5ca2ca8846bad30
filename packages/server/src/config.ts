import { homedir } from 'node:os'
import { join } from 'node:path'
import {
  DEFAULT_MODEL,
  DEMO_MODEL,
  type ModelApi,
  providerAddressNames,
  readSealKey,
  VENDOR_BASE_URL,
} from '@bureau/framework'
import { addressSetting, PeerEnvironment, ObservabilityEnvironment, readEnvironment } from '@bureau/runtime'
import { z } from 'zod'

/** Everything the self-hosted server reads from its environment. */
export const ServerEnvironment = z.object({
  OPENAI_API_KEY: z.string().optional().describe('API key of the default model provider.'),
  OPENAI_BASE_URL: addressSetting(/^https?:\/\//, 'https://api.openai.com/v1')
    .optional()
    .describe('Base URL of the default model provider, with the version segment.'),
  OPENAI_API: z
    .enum(['responses', 'chat_completions'])
    .default('responses')
    .describe('What the provider at OPENAI_BASE_URL speaks.'),
  BUREAU_MODEL: z
    .string()
    .optional()
    .describe(`Model of agents that name none. Default: ${DEFAULT_MODEL}; without any key or base URL the demo model.`),
  NODE_USE_ENV_PROXY: z
    .string()
    .optional()
    .describe(
      '1: the model providers of the operator are asked through HTTPS_PROXY and HTTP_PROXY, but for NO_PROXY. Node.js itself ' +
        'reads it, too.',
    ),
  ...PeerEnvironment,
  REDIS_URL: addressSetting(/^rediss?:\/\//, 'redis://127.0.0.1:6379')
    .optional()
    .describe("Redis through which several processes find each other's runs and sign-ins. Default: one process."),
  BUREAU_OAUTH_TOKEN_PATH: z
    .string()
    .optional()
    .describe('Folder of the token files of protected tool servers. Default: ~/.bureau/mcp-tokens.'),
  BUREAU_OAUTH_TOKEN_KEY: z
    .string()
    .optional()
    .refine((text) => text === undefined || text.split(',').every(readSealKey), {
      error: 'must be keys of 32 bytes, in base64 or hex, by commas',
    })
    .describe('Keys of the token files: 32 bytes in base64 or hex, by commas; the first encrypts. Default: a file.'),
  BUREAU_SECRET: z
    .string()
    .optional()
    .refine((text) => text === undefined || secretsOf(text).every(({ length }) => length >= 32), {
      error: 'must be texts of 32 characters or more, by commas',
    })
    .describe(
      'Seals requests for approvals: texts of 32 characters or more, by commas; the first seals, all open. Every process ' +
        'needs the same. Default: a key that is made in BUREAU_APPROVALS_PATH.',
    ),
  BUREAU_APPROVALS_PATH: z
    .string()
    .optional()
    .describe(
      'Folder of the key for approvals and, without Redis, of those that were used. Default: ~/.bureau/approvals.',
    ),
  BUREAU_CONSOLE: z.stringbool('must be true or false').default(true).describe('false: no console at /console.'),
  BUREAU_KEEP_RECENT_RUNS: z
    .stringbool('must be true or false')
    .optional()
    .describe('Whether the console shows the latest 200 runs of a process. Default: unless NODE_ENV is production.'),
  BUREAU_KEEP_RESPONSES_SECONDS: z.coerce
    .number()
    .int()
    .min(0)
    .max(2_147_483)
    .default(0)
    .describe('How long a process keeps responses of the Responses API, for previous_response_id and background.'),
  ...ObservabilityEnvironment,
  NODE_ENV: z.string().optional().describe('production: the demo model is never chosen on its own.'),
})

/** The addresses of other providers, which are read when a model of theirs is asked. */
const OTHER_ADDRESSES: object = Object.fromEntries(
  providerAddressNames.map((name) => [
    name,
    addressSetting(/^https?:\/\//, 'https://gateway.example.com/v1').optional(),
  ]),
)

export type ServerConfig = {
  readonly model: {
    readonly api: ModelApi
    readonly baseUrl: string
    readonly apiKey: string | undefined
    readonly defaultModel: string
  }
  readonly usesProxy: boolean
  readonly allowedHosts: readonly string[]
  readonly trustedProxies: readonly string[]
  readonly wrongKeysPerMinute: number
  readonly redisUrl: string | undefined
  readonly console: boolean
  readonly keepRecentRuns: boolean
  readonly keepResponsesMs: number
  readonly metrics: boolean
  readonly oauth: { readonly tokenPath: string | undefined; readonly tokenKey: string | undefined }
  readonly approvals: {
    readonly secrets: readonly string[]
    /** Folder of the key that is used without a secret. */
    readonly directory: string
    /** Folder of what was used, without Redis. */
    readonly used: string
  }
  /** Reads one variable: server tokens and keys of other providers have names of the operator's choosing. */
  readonly read: (name: string) => string | undefined
}

/**
 * Reads and checks the environment; empty values count as absent.
 *
 * @throws ConfigError with every problem.
 */
export function loadConfig(environment: NodeJS.ProcessEnv = process.env): ServerConfig {
  const read = (name: string): string | undefined => environment[name] || undefined
  const env = readEnvironment(z.object({ ...ServerEnvironment.shape, ...OTHER_ADDRESSES }), environment)
  const configured = env.OPENAI_API_KEY !== undefined || env.OPENAI_BASE_URL !== undefined
  const approvals = env.BUREAU_APPROVALS_PATH ?? join(homedir(), '.bureau', 'approvals')
  const offline = !configured && env.NODE_ENV !== 'production'
  return {
    model: {
      api: env.OPENAI_API,
      baseUrl: env.OPENAI_BASE_URL ?? VENDOR_BASE_URL,
      apiKey: env.OPENAI_API_KEY,
      defaultModel: env.BUREAU_MODEL ?? (offline ? DEMO_MODEL : DEFAULT_MODEL),
    },
    usesProxy: env.NODE_USE_ENV_PROXY === '1',
    allowedHosts: env.BUREAU_ALLOWED_HOSTS,
    trustedProxies: env.BUREAU_TRUSTED_PROXIES,
    wrongKeysPerMinute: env.BUREAU_WRONG_KEYS_PER_MINUTE,
    redisUrl: env.REDIS_URL,
    console: env.BUREAU_CONSOLE,
    metrics: env.BUREAU_METRICS,
    keepRecentRuns: env.BUREAU_KEEP_RECENT_RUNS ?? env.NODE_ENV !== 'production',
    keepResponsesMs: env.BUREAU_KEEP_RESPONSES_SECONDS * 1_000,
    oauth: { tokenPath: env.BUREAU_OAUTH_TOKEN_PATH, tokenKey: env.BUREAU_OAUTH_TOKEN_KEY },
    approvals: {
      secrets: secretsOf(env.BUREAU_SECRET ?? ''),
      directory: approvals,
      used: join(approvals, 'used'),
    },
    read,
  }
}

function secretsOf(text: string): string[] {
  return text.split(',').flatMap((secret) => secret.trim() || [])
}
