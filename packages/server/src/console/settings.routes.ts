import { ServerSettings, type SettingsFeature, type SettingsLimit } from '@bureau/protocol'
import { ok } from '@bureau/runtime'
import type { ServerConfig } from '../config.ts'
import { jsonRoute, named, type ServerRoute } from '../http/route.ts'
import { approvalMsOf, bodyLimitOf, drainMsOf, maxRunsOf, resumeMsOf, type ServerOptions } from '../options.ts'

type Parts = {
  readonly options: ServerOptions
  readonly config: ServerConfig
  /** The latest runs are kept. */
  readonly keepsRecentRuns: boolean
  readonly version: string
}

/** What the server was started with, without secrets, for whoever has the server token. */
export function settingsRoutes(parts: Parts): ServerRoute[] {
  return [
    jsonRoute(
      {
        ...named('get_settings'),
        method: 'GET',
        url: '/console/settings',
        tag: 'operation',
        success: { 200: ServerSettings },
        errors: [],
      },
      async () => ok(settingsOf(parts), { 'cache-control': 'no-store' }),
    ),
  ]
}

function settingsOf({ options, config, keepsRecentRuns, version }: Parts): ServerSettings {
  const { allow = [], deny = [] } = options.egress ?? {}
  return {
    version,
    limits: limitsOf(options, config),
    features: featuresOf(options, keepsRecentRuns, options.metrics ?? config.metrics),
    egress: { allow: [...config.allowedHosts, ...allow], deny: [...deny] },
  }
}

function limitsOf(options: ServerOptions, config: ServerConfig): SettingsLimit[] {
  const ms = 'milliseconds'
  return [
    { name: 'maxConcurrentRuns', about: 'Runs and voice sessions at once', value: maxRunsOf(options), unit: 'runs' },
    { name: 'bodyLimitBytes', about: 'Largest request body', value: bodyLimitOf(options), unit: 'bytes' },
    { name: 'resumeMs', about: 'Events of a run are kept after its end', value: resumeMsOf(options), unit: ms },
    { name: 'approvalMs', about: 'A person may take to decide about a call', value: approvalMsOf(options), unit: ms },
    { name: 'drainMs', about: 'Streams may take to end after a stop', value: drainMsOf(options), unit: ms },
    {
      name: 'BUREAU_WRONG_KEYS_PER_MINUTE',
      about: 'Wrong tokens of one address in a minute',
      value: config.wrongKeysPerMinute,
      unit: 'attempts',
    },
  ]
}

function featuresOf(
  options: ServerOptions,
  keepsRecentRuns: boolean,
  metrics: ServerOptions['metrics'],
): SettingsFeature[] {
  return [
    { name: 'keepRecentRuns', about: 'The latest runs are kept for the console', on: keepsRecentRuns },
    { name: 'exposeInstructions', about: 'Instructions are shown', on: options.exposeInstructions ?? false },
    { name: 'openai', about: "OpenAI's API at /openai/v1", on: options.openai !== false },
    { name: 'a2a', about: 'Agent2Agent protocol at /a2a', on: options.a2a !== false && resumeMsOf(options) > 0 },
    { name: 'mcp', about: 'MCP server at /mcp', on: options.mcp !== false },
    { name: 'enableAgui', about: 'AG-UI in place of the agency protocol', on: options.enableAgui ?? false },
    { name: 'enableRealtime', about: 'Voice over WebSockets', on: options.enableRealtime ?? false },
    { name: 'enableLogging', about: 'Requests with a log id are recorded', on: options.enableLogging ?? false },
    { name: 'metrics', about: 'Metrics for Prometheus at /metrics', on: Boolean(metrics) },
  ]
}
