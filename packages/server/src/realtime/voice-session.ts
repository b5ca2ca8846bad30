import { randomUUID } from 'node:crypto'
import { type Agency, type AgencyContext, type RunEnvironment, SharedState } from '@bureau/framework'
import type { RealtimeSession, RealtimeSessionConfig } from '@openai/agents-realtime'
import { WebSocket } from 'ws'
import type { RealtimeSdk } from './load-realtime-sdk.ts'
import { realtimeEntryAgent, realtimeGuardrails, type VoiceAgent } from './realtime-agents.ts'
import type { RealtimeSettings } from './realtime-options.ts'

const CONNECT_TIMEOUT_MS = 15_000
/** How long a provider may take to confirm the session's settings before the client may speak anyway. */
const CONFIRM_TIMEOUT_MS = 5_000

/** A call that waits for the user's decision. */
export type ToolApproval = Parameters<RealtimeSession<AgencyContext>['approve']>[0]

type VoiceSessionOptions = {
  readonly sdk: RealtimeSdk
  readonly agency: Agency
  readonly settings: RealtimeSettings
  readonly environment: RunEnvironment
  /** Sends a message of the agency's own to the client. */
  readonly emit: AgencyContext['emit']
  readonly toolFailed: NonNullable<AgencyContext['toolFailed']>
}

/** One conversation with a realtime model. Nothing is sent before `connect()`. */
export class VoiceSession {
  readonly session: RealtimeSession<AgencyContext>
  /** Resolves when the provider is gone. */
  readonly left: Promise<void>
  readonly #settings: RealtimeSettings
  readonly #ended = new AbortController()
  #upstream: WebSocket | undefined
  #responding = false

  /** @throws NoRealtimeFlow */
  constructor({ sdk, agency, settings, environment, ...told }: VoiceSessionOptions) {
    const { signal } = this.#ended
    this.#settings = settings
    const agent = realtimeEntryAgent(agency, { sdk, environment, signal })
    const transport = createTransport(sdk, settings, (headers) => this.#openSocket(headers))
    // The SDK copies the members of the context, so they must be the object's own.
    const userContext = { ...agency.userContext }
    const sharedState = new SharedState()
    const context = { runId: randomUUID(), agent: agent.name, userContext, sharedState, signal, ...told }
    this.session = new sdk.RealtimeSession<AgencyContext>(agent, {
      transport,
      apiKey: settings.apiKey ?? '',
      model: settings.model,
      context,
      outputGuardrails: realtimeGuardrails(agency),
      config: sessionConfig(settings, agency.entryPoint.voice),
      tracingDisabled: true,
    })
    this.left = new Promise((resolve) => {
      transport.on('connection_change', (status) => {
        if (status === 'disconnected') resolve()
      })
    })
    this.session.on('agent_handoff', (_context, _from, to: VoiceAgent) => {
      Object.assign(this.session.context.context, { agent: to.name })
    })
    this.session.on('transport_event', ({ type }) => {
      if (type === 'response.created') this.#responding = true
      else if (type === 'response.done') this.#responding = false
    })
  }

  /** Bytes that the provider has not taken yet. */
  get unsentBytes(): number {
    return this.#upstream?.bufferedAmount ?? 0
  }

  /**
   * Resolves when the provider has taken the agent's settings.
   *
   * @throws Error the provider cannot be reached, refuses the key, or refuses the settings.
   */
  async connect(): Promise<void> {
    const { apiKey, url } = this.#settings
    if (apiKey === undefined) throw new Error('no API key for the realtime provider')
    const confirmed = this.#confirmed()
    confirmed.catch(() => {}) // Reported below, unless the connection fails before.
    await this.session.connect({ apiKey, url })
    await confirmed
  }

  /** Raw text or audio for the model, as its own protocol has it. */
  send(event: { readonly type: string; readonly [key: string]: unknown }): void {
    this.session.transport.sendEvent(event)
  }

  /** Stops what the model is saying, or about to say. */
  interrupt(): void {
    const { transport } = this.session
    const speaking = 'currentItemId' in transport && transport.currentItemId !== undefined
    if (speaking) this.session.interrupt()
    else if (this.#responding) this.send({ type: 'response.cancel' })
  }

  requestResponse(): void {
    this.session.transport.requestResponse?.()
  }

  close(): void {
    this.#ended.abort()
    this.session.close()
    this.#upstream?.terminate()
  }

  #openSocket(headers: Readonly<Record<string, string>>): WebSocket {
    this.#upstream = new WebSocket(this.#settings.url, {
      headers: { ...headers, ...this.#settings.headers },
      handshakeTimeout: CONNECT_TIMEOUT_MS,
      perMessageDeflate: false,
    })
    return this.#upstream
  }

  /** An error before the settings are confirmed is about the settings: an agent must not talk without them. */
  #confirmed(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, CONFIRM_TIMEOUT_MS)
    const look = ({ type, error }: { readonly type: string; readonly error?: unknown }): void => {
      if (type === 'error') reject(new Error(`the provider refused the session: ${JSON.stringify(error)}`))
      else if (type === 'session.updated') resolve()
    }
    this.session.on('transport_event', look)
    void this.left.then(() => reject(new Error('the provider left before the session began')))
    return promise.finally(() => {
      clearTimeout(timer)
      this.session.off('transport_event', look)
    })
  }
}

type Transport = InstanceType<RealtimeSdk['OpenAIRealtimeWebSocket']>

/** The SDK's transport over a socket of ours, without its attempts to switch tracing on or off. */
function createTransport(
  sdk: RealtimeSdk,
  settings: RealtimeSettings,
  openSocket: (headers: Readonly<Record<string, string>>) => WebSocket,
): Transport {
  class VoiceTransport extends sdk.OpenAIRealtimeWebSocket {
    override _updateTracingConfig(): void {
      // A session that was never told to trace does not trace.
    }

    /** What the SDK cannot read would otherwise be an uncaught exception, and the end of the process. */
    override _onMessage(...[event]: Parameters<Transport['_onMessage']>): void {
      try {
        super._onMessage(event)
      } catch (error) {
        this.emit('error', { type: 'error', error })
      }
    }

    override buildSessionPayload(config: Partial<RealtimeSessionConfig>): ReturnType<Transport['buildSessionPayload']> {
      const payload = super.buildSessionPayload(config)
      return settings.provider === 'xai' ? xaiPayload(payload, settings) : payload
    }
  }
  const transport: Transport = new VoiceTransport({
    createWebSocket: async ({ apiKey }) => openSocket({ authorization: `Bearer ${apiKey}` }),
  })
  return transport
}

function sessionConfig(settings: RealtimeSettings, agentVoice: string | undefined): Partial<RealtimeSessionConfig> {
  const { inputAudioFormat, outputAudioFormat, turnDetection, inputAudioNoiseReduction } = settings
  const voice = settings.voice ?? agentVoice
  return {
    audio: {
      input: {
        ...(inputAudioFormat && { format: inputAudioFormat as never }),
        ...(turnDetection !== undefined && { turnDetection }),
        ...(inputAudioNoiseReduction !== undefined && { noiseReduction: inputAudioNoiseReduction }),
      },
      output: {
        ...(outputAudioFormat && { format: outputAudioFormat as never }),
        ...(voice !== undefined && { voice }),
      },
    },
  }
}

/** xAI has voice and turn detection at the top of a session, and knows server-side voice detection only. */
function xaiPayload(
  { instructions, tools, audio }: ReturnType<Transport['buildSessionPayload']>,
  { turnDetection }: RealtimeSettings,
): ReturnType<Transport['buildSessionPayload']> {
  const { voice, format } = audio?.output ?? {}
  return {
    type: 'realtime',
    instructions,
    ...(voice !== undefined && { voice }),
    turn_detection: turnDetection === undefined ? { type: 'server_vad' } : turnDetection,
    audio: { input: { format: audio?.input?.format }, output: { format } },
    ...(tools !== undefined && { tools }),
  }
}
