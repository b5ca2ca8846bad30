import type { Agency } from '@bureau/framework'
import type { Logger } from '@bureau/runtime'
import type { WebSocket } from 'ws'
import type { ServerContext } from '../context.ts'
import { applyClientMessage, readClientMessage } from './client-messages.ts'
import { CLOSE, closeSocket, sendJson } from './live-connections.ts'
import type { RealtimeSdk } from './load-realtime-sdk.ts'
import type { RealtimeSettings } from './realtime-options.ts'
import { connectionErrorOf, relayEvents, type ServerMessage } from './relay-events.ts'
import { SessionLimits } from './session-limits.ts'
import { SessionUsage } from './session-usage.ts'
import { type ToolApproval, VoiceSession } from './voice-session.ts'

/** A provider this many bytes behind stops the server from reading its client further. */
const MAX_UNSENT_BYTES = 1_048_576
const HELD_BACK_CHECK_MS = 20
/** Messages that are not understood are logged so many times per connection. */
const MAX_LOGGED_MISTAKES = 20

type RealtimeConnectionOptions = {
  readonly socket: WebSocket
  readonly agency: Agency
  /** Its name in the routes. */
  readonly agencyName: string
  readonly sdk: RealtimeSdk
  readonly settings: RealtimeSettings
  readonly context: ServerContext
  readonly log: Logger
}

/**
 * Joins an accepted client to a realtime model until one of them leaves.
 *
 * Nothing is read from the client before the model has its instructions. Never throws.
 */
export async function serveRealtimeConnection(options: RealtimeConnectionOptions): Promise<void> {
  const { socket, log } = options
  socket.pause()
  try {
    socket.once('close', options.context.takeSlot())
  } catch {
    return closeSocket(socket, CLOSE.overloaded, 'server at its limit')
  }
  const limits = new SessionLimits(options.settings, (reason) => closeSocket(socket, CLOSE.limit, reason))
  socket.once('close', () => limits.close())
  const send = (message: ServerMessage): void => {
    limits.touch()
    sendJson(socket, message)
  }
  const approvals = new Map<string, ToolApproval>()
  let voice: VoiceSession
  try {
    voice = startVoice(options, send)
  } catch (error) {
    log.warn({ err: error }, 'realtime agency could not be set up')
    return closeSocket(socket, CLOSE.failed, 'initialise agency')
  }
  socket.once('close', () => voice.close())
  meter(options, voice)
  relayEvents({ session: voice.session, send, log, approvals })
  try {
    await voice.connect()
  } catch (error) {
    log.warn({ err: connectionErrorOf(error) ?? error }, 'realtime session could not be started')
    closeSocket(socket, CLOSE.failed, 'initialise session')
    return voice.close()
  }
  void voice.left.then(() => closeSocket(socket, CLOSE.failed, 'session error'))
  listen(options, { voice, approvals, limits, send })
  socket.resume()
}

function startVoice(options: RealtimeConnectionOptions, send: (message: ServerMessage) => void): VoiceSession {
  const { sdk, agency, settings, context, log } = options
  const toolFailed = (tool: string, error: unknown): void => log.warn({ err: error, tool }, 'tool failed')
  return new VoiceSession({ sdk, agency, settings, environment: context.environment, emit: send, toolFailed })
}

/** Counts what the session spends, and logs it when the client's connection has ended. */
function meter({ socket, agencyName, settings, context, log }: RealtimeConnectionOptions, voice: VoiceSession): void {
  const startedAt = performance.now()
  const observer = context.observeSession(agencyName)
  const usage = new SessionUsage({ session: voice.session, model: settings.model, observer })
  socket.once('close', () => {
    observer?.end()
    const durationMs = Math.round(performance.now() - startedAt)
    log.info({ agency: agencyName, model: settings.model, durationMs, usage: usage.total }, 'realtime session ended')
  })
}

type Session = {
  readonly voice: VoiceSession
  readonly approvals: Map<string, ToolApproval>
  readonly limits: SessionLimits
  readonly send: (message: ServerMessage) => void
}

/** Carries out what the client sends, in order, no faster than it may send and than the provider takes it. */
function listen({ socket, log }: RealtimeConnectionOptions, session: Session): void {
  const { voice, approvals, limits, send } = session
  let mistakes = 0
  socket.on('message', (data: Buffer, isBinary) => {
    if (socket.readyState === socket.OPEN) limits.count(data.byteLength)
    if (socket.readyState !== socket.OPEN) return
    const message = readClientMessage(data, isBinary)
    applyClientMessage(message, voice, approvals).then(
      (ignored) => {
        if (ignored === undefined) return
        send({ type: 'error', error: `The message is ignored: ${ignored}.`, code: 'invalid_request' })
        if (++mistakes <= MAX_LOGGED_MISTAKES) log.warn({ reason: ignored }, 'realtime message ignored')
      },
      (error: unknown) => {
        log.warn({ err: error }, 'realtime session failed')
        closeSocket(socket, CLOSE.failed, 'session error')
      },
    )
    if ((voice.unsentBytes > MAX_UNSENT_BYTES || !limits.mayGoOn) && !socket.isPaused) holdBack(socket, session)
  })
}

/** Reads nothing more from the client until the provider has caught up and the client may send again. */
function holdBack(socket: WebSocket, { voice, limits }: Session): void {
  socket.pause()
  const timer = setInterval(() => {
    const mustWait = voice.unsentBytes > MAX_UNSENT_BYTES / 2 || !limits.mayGoOn
    if (mustWait && socket.readyState === socket.OPEN) return
    clearInterval(timer)
    socket.resume()
  }, HELD_BACK_CHECK_MS)
}
