import { Agency, AnyFunction, Milliseconds, type OptionChecks, otherCopy, readOptions } from '@bureau/framework'
import { SIDE_REQUESTS } from '@bureau/faces'
import type { EgressPolicyOptions, TracingOptions } from '@bureau/runtime'
import { z } from 'zod'
import type { OAuthOptions } from './oauth/oauth-options.ts'
import type { MetricsOptions, OpenAiServerOptions, ServerOptions } from './options.ts'
import { RealtimeChecks } from './realtime/realtime-options.ts'

const flag = z.boolean().optional()
const text = z.string().optional()
const texts = z.array(z.string()).optional()
const count = z.int().positive().optional()
const milliseconds = z.int().min(0).max(2_147_483_647).optional()
/** What browsers send as `Origin`: nothing else would ever be equal to it. */
const origin = z.string().refine((text) => text === '*' || text === 'null' || isOrigin(text), {
  error: 'must be "*", or an origin without a path (https://app.example.com)',
})
const port = z.int().min(0).max(65_535).optional()
const anAgency = z.custom<Agency>((value) => value instanceof Agency)

/** Also for those of `modelAccess`. */
export const EgressChecks = z.strictObject({ allow: texts, deny: texts } satisfies OptionChecks<EgressPolicyOptions>)

const OAuthChecks = {
  oauthUserId: AnyFunction.optional(),
  verifyOauthCallbackUser: flag,
  oauthRegistry: z.unknown().optional(),
  oauthTokenPath: z.union([z.string(), z.record(z.string(), z.string())]).optional(),
  oauthTimeoutMs: Milliseconds.optional(),
} satisfies OptionChecks<OAuthOptions>

const ServerChecks = z.strictObject({
  ...OAuthChecks,
  agencies: z
    .record(
      z.string(),
      z.union([anAgency, AnyFunction], {
        error: ({ input }) => otherCopy(input) ?? 'must be an Agency, or a function that makes one',
      }),
    )
    .optional(),
  tools: z.array(z.unknown()).optional(),
  host: text,
  port,
  serverUrl: z.url({ protocol: /^https?$/, error: 'must be an http: or https: address' }).optional(),
  appTokenEnv: z
    .string()
    .regex(/^[^\s=]+$/, 'must be the name of a variable')
    .optional(),
  corsOrigins: z.array(origin).optional(),
  authenticate: AnyFunction.optional(),
  publicDocs: flag,
  exposeInstructions: flag,
  enableAgui: flag,
  aguiReasoning: flag,
  a2a: flag,
  mcp: flag,
  openai: z
    .union([
      z.boolean(),
      z.strictObject({
        sideRequests: z.enum(SIDE_REQUESTS).optional(),
        keepResponsesMs: milliseconds,
        strictResponses: flag,
      } satisfies OptionChecks<OpenAiServerOptions>),
    ])
    .optional(),
  enableRealtime: flag,
  realtimeOptions: RealtimeChecks.optional(),
  allowedLocalFileDirs: texts,
  egress: EgressChecks.optional(),
  deleteUploadsAfterRun: flag,
  clientConfigVendors: texts,
  bodyLimitBytes: count,
  maxConcurrentRuns: count,
  approvalMs: count,
  drainMs: milliseconds,
  resumeMs: milliseconds,
  console: flag,
  keepRecentRuns: flag,
  logLevel: z.enum(['silent', 'fatal', 'error', 'warn', 'info', 'debug', 'trace']).optional(),
  logDestination: z.looseObject({ write: AnyFunction }).optional(),
  enableLogging: flag,
  logsDir: text,
  tracing: z
    .union([
      z.boolean(),
      z.strictObject({
        endpoint: text,
        provider: z.unknown().optional(),
        traceContent: flag,
      } satisfies OptionChecks<TracingOptions>),
    ])
    .optional(),
  metrics: z
    .union([z.boolean(), z.strictObject({ path: text, port } satisfies OptionChecks<MetricsOptions>)])
    .optional(),
} satisfies OptionChecks<ServerOptions>)

function isOrigin(text: string): boolean {
  const url = URL.parse(text)
  // The origins of other schemes, such as those of browser extensions, are not defined for all platforms.
  return (
    url !== null && (/^https?:$/.test(url.protocol) ? url.origin === text : /^[a-z][\w.+-]*:\/\/[^/?#]+$/.test(text))
  )
}

/** @throws ConfigError an option is not known, or has a value of the wrong kind; every problem is listed. */
export function checkServerOptions(options: ServerOptions): void {
  readOptions('runServer', ServerChecks, options)
}
