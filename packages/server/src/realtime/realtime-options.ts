import type { ModelAccess } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import { Milliseconds, type OptionChecks, readOptions } from '@bureau/framework'
import { z } from 'zod'
import { TurnDetection } from './client-events.ts'

export type RealtimeProviderOptions = {
  /** Where the provider's realtime interface is (`wss:`, `ws:`, `https:` or `http:`). Default: the provider's own. */
  readonly url?: string
  readonly apiKey?: string
  /** Name of the environment variable with the key. Default: `OPENAI_API_KEY` or `XAI_API_KEY`. */
  readonly apiKeyEnv?: string
  /** Sent along with the handshake. */
  readonly headers?: Readonly<Record<string, string>>
}

/** PCM16 at 24 kHz (default), G.711, or an object in the provider's own words. */
export type RealtimeAudioFormat =
  | 'pcm16'
  | 'g711_ulaw'
  | 'g711_alaw'
  | { readonly type: string; readonly rate?: number }

export type RealtimeOptions = RealtimeProviderOptions & {
  /** Default `openai`. */
  readonly provider?: 'openai' | 'xai'
  /** The members of `RealtimeProviderOptions`, here or at the top. */
  readonly providerOptions?: RealtimeProviderOptions
  /** Default: the provider's general voice model. */
  readonly model?: string
  /** One voice for the whole session. Default: the entry agent's, else the provider's. */
  readonly voice?: string
  readonly inputAudioFormat?: RealtimeAudioFormat
  readonly outputAudioFormat?: RealtimeAudioFormat
  /** When the model takes its turn, in the provider's words (`silence_duration_ms`). Null: only when the client commits its audio. */
  readonly turnDetection?: Readonly<Record<string, unknown>> | null
  readonly inputAudioNoiseReduction?: { readonly type: string } | null
  /** Largest message of a client, in bytes. Default 1_048_576 (1 MiB). A larger one closes the connection (1009). */
  readonly maxMessageBytes?: number
  /** Messages of a client in one second; a faster client is read more slowly. Default 200, four times what 20 ms of audio need. */
  readonly maxMessagesPerSecond?: number
  /** All messages of a client together, in bytes. Default 268_435_456 (256 MiB), an hour of PCM16. More ends the session (1008). */
  readonly maxSessionBytes?: number
  /** Longest session, in milliseconds. Default 3_600_000 (an hour). Then it ends (1008). */
  readonly maxSessionMs?: number
  /** Longest time in which neither the client nor the model sends anything, in milliseconds. Default 600_000. Then 1008. */
  readonly idleMs?: number
  /** How often clients are pinged; a client that has not answered until the next time is cut off. Default 30_000. */
  readonly heartbeatMs?: number
}

const PROVIDERS = {
  openai: {
    keyName: 'OPENAI_API_KEY',
    model: 'gpt-realtime',
    voices: ['alloy', 'ash', 'ballad', 'cedar', 'coral', 'echo', 'marin', 'sage', 'shimmer', 'verse'],
    /** Voices of the operator's own have ids instead of names. */
    ownVoice: /^voice_\w+$/,
  },
  xai: {
    keyName: 'XAI_API_KEY',
    url: 'wss://api.x.ai/v1/realtime',
    model: 'grok-voice-latest',
    voices: ['ara', 'eve', 'leo', 'rex', 'sal'],
    ownVoice: /^[a-z0-9]{8}$/,
  },
} as const

const url = z.url({ protocol: /^(?:wss?|https?)$/, error: 'must be a ws:, wss:, http: or https: address' })
const audioFormat = z.union([
  z.enum(['pcm16', 'g711_ulaw', 'g711_alaw']),
  z.looseObject({ type: z.string(), rate: z.number().positive().optional() }),
])
const ProviderOptions = z.strictObject({
  url: url.optional(),
  apiKey: z.string().min(1).optional(),
  apiKeyEnv: z.string().min(1).optional(),
  headers: z.record(z.string(), z.string()).optional(),
} satisfies OptionChecks<RealtimeProviderOptions>)

export const RealtimeChecks = z.strictObject({
  ...ProviderOptions.shape,
  provider: z.enum(['openai', 'xai']).default('openai'),
  providerOptions: ProviderOptions.optional(),
  model: z.string().min(1).optional(),
  voice: z.string().min(1).optional(),
  inputAudioFormat: audioFormat.optional(),
  outputAudioFormat: audioFormat.optional(),
  turnDetection: TurnDetection.optional(),
  inputAudioNoiseReduction: z.looseObject({ type: z.string() }).nullish(),
  maxMessageBytes: z.int().positive().default(1_048_576),
  maxMessagesPerSecond: z.int().positive().default(200),
  maxSessionBytes: z.int().positive().default(268_435_456),
  maxSessionMs: Milliseconds.default(3_600_000),
  idleMs: Milliseconds.default(600_000),
  heartbeatMs: Milliseconds.default(30_000),
} satisfies OptionChecks<RealtimeOptions>)

type WireFormat = { readonly type: string; readonly rate?: number }

/** Everything a session needs to know of its provider. */
export type RealtimeSettings = Omit<
  z.output<typeof RealtimeChecks>,
  keyof RealtimeProviderOptions | 'providerOptions' | 'turnDetection'
> & {
  readonly url: string
  readonly apiKey: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly model: string
  readonly inputAudioFormat: WireFormat | undefined
  readonly outputAudioFormat: WireFormat | undefined
  readonly turnDetection?: RealtimeOptions['turnDetection'] | undefined
}

/**
 * Checks the options and fills them up from the environment.
 *
 * @throws ConfigError with every problem, each under the name of its option.
 */
export function readRealtimeOptions(options: RealtimeOptions, models: ModelAccess): RealtimeSettings {
  const checks = z.strictObject({ realtimeOptions: RealtimeChecks })
  const { realtimeOptions } = readOptions('runServer', checks, { realtimeOptions: options })
  const { providerOptions, url, apiKey, apiKeyEnv, headers, ...settings } = realtimeOptions
  const given = { url, apiKey, apiKeyEnv, headers, ...providerOptions }
  const { provider, voice, model = PROVIDERS[provider].model } = settings
  if (voice !== undefined) checkVoice(provider, voice, 'realtimeOptions.voice')
  return {
    ...settings,
    url: sessionUrl(given.url ?? defaultUrl(provider, models), model),
    apiKey: given.apiKey ?? models.readKey(given.apiKeyEnv ?? PROVIDERS[provider].keyName),
    headers: given.headers ?? {},
    model,
    inputAudioFormat: wireFormat(settings.inputAudioFormat),
    outputAudioFormat: wireFormat(settings.outputAudioFormat),
  }
}

/** @throws ConfigError the provider has no such voice. */
export function checkVoice(provider: RealtimeSettings['provider'], voice: string, option: string): void {
  const { voices, ownVoice } = PROVIDERS[provider]
  const known: readonly string[] = voices
  if (known.includes(voice.toLowerCase()) || ownVoice.test(voice)) return
  throw new ConfigError(`${option}: ${provider} has no voice "${voice}". Its voices: ${voices.join(', ')}.`)
}

/** The key in the environment belongs to the provider at the configured base URL, so realtime goes there too. */
function defaultUrl(provider: RealtimeSettings['provider'], models: ModelAccess): string {
  return provider === 'xai' ? PROVIDERS.xai.url : `${models.baseUrl.replace(/\/$/, '')}/realtime`
}

function sessionUrl(base: string, model: string): string {
  const address = new URL(base)
  address.protocol = address.protocol.replace(/^http/, 'ws')
  if (!address.searchParams.has('model')) address.searchParams.set('model', model)
  return address.href
}

function wireFormat(format: z.infer<typeof audioFormat> | undefined): WireFormat | undefined {
  switch (format) {
    case undefined:
      return undefined
    case 'pcm16':
      return { type: 'audio/pcm', rate: 24_000 }
    case 'g711_ulaw':
      return { type: 'audio/pcmu' }
    case 'g711_alaw':
      return { type: 'audio/pcma' }
    default:
      return format as WireFormat
  }
}
