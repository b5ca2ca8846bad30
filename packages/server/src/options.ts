import { inspect } from 'node:util'
import { Agency, type AnyTool, otherCopy, VENDORS, vendorsOf } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import type { SideRequests } from '@bureau/faces'
import type { EgressPolicyOptions, LogDestination, LogLevel, TracingOptions } from '@bureau/runtime'
import type { Authenticate } from './http/users.ts'
import type { RealtimeOptions } from './realtime/realtime-options.ts'
import type { OAuthOptions } from './oauth/oauth-options.ts'

/** A tool in any style: made by `tool()`, a tool class, or a function tool of `@openai/agents`. */
export type ServerTool = AnyTool

export type MetricsOptions = {
  /** Default `/metrics`. */
  readonly path?: string
  /** A port for metrics alone, on the server's host. Default: the server's own port. */
  readonly port?: number
}

/** How the server speaks OpenAI's API. */
export type OpenAiServerOptions = {
  /**
   * Of the requests that chat pages make by themselves, for titles, tags and follow-up questions (`### Task:`): `agency`
   * runs the agency as for its users, `model` asks the agent's model without its instructions and tools, `refuse` answers
   * 400. Default `agency`.
   */
  readonly sideRequests?: SideRequests
  /**
   * How long responses of the Responses API are kept in the memory of this process, in milliseconds, for
   * `previous_response_id`, `background`, and clients that come back. At most 128 MiB are kept; 0: none.
   * Default: as BUREAU_KEEP_RESPONSES_SECONDS says; without that, none.
   */
  readonly keepResponsesMs?: number
  /** True: streams of the Responses API hold nothing but what the Open Responses specification knows. Default false. */
  readonly strictResponses?: boolean
}

export type ServerOptions = OAuthOptions & {
  /** Agencies by the name in their routes, or functions that make them (called once, at start). */
  readonly agencies?: Readonly<Record<string, Agency | (() => Agency)>>
  /** Tools served at `POST /tool/<name>`. */
  readonly tools?: readonly ServerTool[]
  /** Where to listen. Default: `0.0.0.0` with a server token, `127.0.0.1` without one. */
  readonly host?: string
  /** Default 8000. 0 picks a free port. */
  readonly port?: number
  /** The address by which callers know the server, for the API description. Default: made from host and port. */
  readonly serverUrl?: string
  /**
   * Name of the environment variable that holds the server token, or several with spaces between. Default `APP_TOKEN`.
   * Unset: no authentication; then only this machine may call, unless `host` and `corsOrigins` say otherwise.
   */
  readonly appTokenEnv?: string
  /**
   * Says who sends a request, in place of the server token: every route but `/healthz`, `/readyz` and `/auth/callback` asks
   * it. The user owns the runs that they begin; tools find them in `userContext.user`. `jwtAuthenticate` makes one for tokens
   * of an OpenID Connect issuer.
   */
  readonly authenticate?: Authenticate
  /**
   * Origins of the pages that may call, `*` for any. Default, without credentials: any with a server token, those of this
   * machine (`http://localhost:3000`) without one.
   */
  readonly corsOrigins?: readonly string[]
  /** True: `/docs`, `/redoc` and `/openapi.json` need no token. Default false. */
  readonly publicDocs?: boolean
  /** True: metadata shows instructions and shared instructions. Default false. */
  readonly exposeInstructions?: boolean
  /** True: `get_response_stream` speaks AG-UI, and `get_response` and `cancel_response_stream` are gone. */
  readonly enableAgui?: boolean
  /** False: AG-UI clients get no reasoning, because those on `@ag-ui/client` 0.0.44 and older fail at it. Default true. */
  readonly aguiReasoning?: boolean
  /** OpenAI's API at `/openai/v1`, with the agencies as models. False: not there. */
  readonly openai?: boolean | OpenAiServerOptions
  /** False: the agencies are not agents of the Agent2Agent protocol at `/a2a`. Default true; they are not with `resumeMs: 0`. */
  readonly a2a?: boolean
  /** False: the server is not an MCP server at `/mcp`. Default true. */
  readonly mcp?: boolean
  /** True: every agency has `/<agency>/realtime`, a WebSocket for voice. Needs the package `@openai/agents-realtime`. */
  readonly enableRealtime?: boolean
  readonly realtimeOptions?: RealtimeOptions
  /** Directories from which `file_urls` may name local files. Default: none. */
  readonly allowedLocalFileDirs?: readonly string[]
  /**
   * Addresses besides public ones for `client_config.base_url`, `file_urls` and what tool servers name (`allow`, added to
   * BUREAU_ALLOWED_HOSTS:
   * `10.1.0.0/16`, `localhost:11434`, `*.corp.example`), and addresses that are never called (`deny`).
   */
  readonly egress?: EgressPolicyOptions
  /**
   * True: what was uploaded for `file_urls` is deleted at the model provider when its run has ended. Later turns refer to
   * files by id, so histories with attachments then no longer work. Default false.
   */
  readonly deleteUploadsAfterRun?: boolean
  /**
   * Vendors whose models requests may choose in `client_config.model` on the operator's keys: `openai` (the default
   * vendor), `anthropic`, `google`, `mistral`, `xai`, `openrouter`, `openai_compatible`. Others need a key in the request.
   * Default: the vendors of the served agencies' own models.
   */
  readonly clientConfigVendors?: readonly string[]
  /** Largest request body, in bytes. Default 33_554_432 (32 MiB). */
  readonly bodyLimitBytes?: number
  /** Runs and voice sessions that the server works on at once; more are refused (503, or close code 1013). Default 10_000. */
  readonly maxConcurrentRuns?: number
  /**
   * How long the events of a run with `on_disconnect: "continue"` are kept after its end, in milliseconds. 0: such runs are
   * refused. Default 60_000.
   */
  readonly resumeMs?: number
  /** How long a person may take to decide about a call that needs an approval, in milliseconds. Default 604_800_000 (7 days). */
  readonly approvalMs?: number
  /** Longest time that open streams may take to finish after a stop signal, in milliseconds. Default 30_000. */
  readonly drainMs?: number
  /** False: there is no console at `/console`. Default: as BUREAU_CONSOLE says, which is true. */
  readonly console?: boolean
  /**
   * True: what the latest 200 runs of this process have done is kept in memory, and `/console/runs` shows it to whoever has
   * the server token, who may carry out single tools at `/console/tools` too. Default: as BUREAU_KEEP_RECENT_RUNS says; without that, unless NODE_ENV is `production`.
   */
  readonly keepRecentRuns?: boolean
  /** Default `info`. */
  readonly logLevel?: LogLevel
  /** What takes the lines of the log, each JSON text with its end. Default: standard output. */
  readonly logDestination?: LogDestination
  /** True: requests with an `x-agency-log-id` header are recorded; `/get_logs` hands the records out. Default false. */
  readonly enableLogging?: boolean
  /** Where those records are kept. Default `activity-logs`. */
  readonly logsDir?: string
  /**
   * Traces of runs, by OpenTelemetry. Default: only when the environment names a collector
   * (`OTEL_EXPORTER_OTLP_ENDPOINT`); false: never.
   */
  readonly tracing?: boolean | TracingOptions
  /** Metrics for Prometheus at `/metrics`. Default: none. */
  readonly metrics?: boolean | MetricsOptions
}

/** First path segments that routes of the server use, so that no agency may have them. */
const RESERVED_NAMES = new Set([
  '.well-known',
  'a2a',
  'auth',
  'console',
  'create_agency_upload',
  'create_new_chat',
  'docs',
  'get_completion_v2',
  'get_logs',
  'guide',
  'healthz',
  'internal',
  'llms.txt',
  'mcp',
  'metrics',
  'openai',
  'openapi.json',
  'readyz',
  'redoc',
  'tool',
  'v1',
])

const AGENCY_NAME = /^(?!\.{1,2}$)[A-Za-z0-9_.~-]{1,128}$/

/**
 * The agencies by route name: an empty key becomes `agency`, spaces become underscores.
 *
 * @throws ConfigError a name is reserved, not fit for a URL, taken twice or only in `oauthTokenPath`, or a function makes no
 *   agency; every problem is listed.
 */
export function readAgencies(options: ServerOptions): ReadonlyMap<string, Agency> {
  const agencies = new Map<string, Agency>()
  const problems: string[] = []
  for (const [key, value] of Object.entries(options.agencies ?? {})) {
    const name = (key === '' ? 'agency' : key).replaceAll(' ', '_')
    if (RESERVED_NAMES.has(name)) problems.push(`agencies: "${name}" is the name of a server route; choose another.`)
    else if (!AGENCY_NAME.test(name)) problems.push(`agencies: "${key}" may hold letters, digits, _ . ~ and - only.`)
    else if (agencies.has(name)) problems.push(`agencies: two agencies are named "${name}".`)
    else {
      const made = value instanceof Agency ? value : makeAgency(value)
      if (made instanceof Agency) agencies.set(name, made)
      else problems.push(`agencies: "${key}" ${made}.`)
    }
  }
  const paths = typeof options.oauthTokenPath === 'object' ? Object.keys(options.oauthTokenPath) : []
  for (const name of paths) if (!agencies.has(name)) problems.push(`oauthTokenPath: there is no agency "${name}".`)
  if (problems.length > 0) throw new ConfigError(problems.join('\n'))
  return agencies
}

/** What a function makes that was given for an agency, or what is wrong with it. */
function makeAgency(make: () => unknown): Agency | string {
  try {
    const made = make()
    return made instanceof Agency ? made : (otherCopy(made) ?? 'is a function that does not return an Agency')
  } catch (error) {
    return `is a function that throws ${error instanceof Error ? `${error.name}: ${error.message}` : inspect(error)}`
  }
}

/**
 * Vendors whose models requests may choose on the operator's keys.
 *
 * @throws ConfigError there is no such vendor.
 */
export function readVendors(
  { clientConfigVendors: given }: ServerOptions,
  agencies: Iterable<Agency>,
  defaultModel: string,
): ReadonlySet<string> {
  const unknown = given?.filter((name) => !VENDORS.includes(name)) ?? []
  if (unknown.length > 0) {
    throw new ConfigError(
      `clientConfigVendors: there is no vendor "${unknown.join('", "')}". Vendors: ${VENDORS.join(', ')}.`,
    )
  }
  return new Set(given ?? [...agencies].flatMap((agency) => vendorsOf(agency, defaultModel)))
}

/** How long the events of a run that outlives its client are kept, in milliseconds. */
export const resumeMsOf = ({ resumeMs = 60_000 }: ServerOptions): number => resumeMs

/** How long runs may go on after a stop signal, in milliseconds. */
export const drainMsOf = ({ drainMs = 30_000 }: ServerOptions): number => drainMs

/** Largest request body, in bytes. */
export const bodyLimitOf = ({ bodyLimitBytes = 33_554_432 }: ServerOptions): number => bodyLimitBytes

/** Runs and voice sessions that the server works on at once. */
export const maxRunsOf = ({ maxConcurrentRuns = 10_000 }: ServerOptions): number => maxConcurrentRuns

/** How long a person may take to decide about a call, in milliseconds. */
export const approvalMsOf = ({ approvalMs = 604_800_000 }: ServerOptions): number => approvalMs
