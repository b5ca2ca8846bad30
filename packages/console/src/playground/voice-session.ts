import { addressOf } from '../server/address.ts'
import { reasonOf } from '../server/reason.ts'
import { ask } from '../server/request.ts'
import { openMicrophone, Speaker } from './voice-audio.ts'
import type { SpokenItem } from './spoken-turns.ts'

/** A call of a tool that waits for a person. */
export type SpokenApproval = {
  readonly agent: string
  readonly tool: string
  readonly call_id: string
  readonly arguments: string
}

type Listener = {
  readonly opened: () => void
  readonly said: (history: readonly SpokenItem[]) => void
  readonly asked: (approval: SpokenApproval) => void
  /** The session goes on. */
  readonly failed: (message: string) => void
  /** It is over. `why`: nobody has stopped it. */
  readonly ended: (why: string | null) => void
}

type ServerMessage = { readonly type: string; readonly [member: string]: unknown }

export type VoiceSession = { readonly decide: (callId: string, approve: boolean) => void; readonly stop: () => void }

/** Talks to the entry agent of an agency, through the microphone and the loudspeaker. */
export function startVoice(agency: string, listener: Listener): VoiceSession {
  const audio = new AudioContext()
  const speaker = new Speaker(audio)
  let socket: WebSocket | undefined
  let release = (): void => {}
  let isOver = false
  const end = (why: string | null): void => {
    if (isOver) return
    isOver = true
    release()
    socket?.close()
    void audio.close()
    listener.ended(why)
  }
  const send = (message: ServerMessage): void => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message))
  }
  const begin = async (): Promise<void> => {
    const closeMicrophone = await openMicrophone(audio, (samples) => {
      if (socket?.readyState === WebSocket.OPEN) socket.send(samples)
    })
    if (isOver) return closeMicrophone()
    release = closeMicrophone
    const path = `${encodeURIComponent(agency)}/realtime`
    const { protocols } = await ask<{ protocols: string[] }>('server', `${path}_ticket`, { method: 'POST' })
    if (isOver) return
    socket = new WebSocket(addressOf(path).replace(/^http/, 'ws'), protocols)
    socket.addEventListener('open', listener.opened)
    socket.addEventListener('close', ({ code, reason }) => end(whyClosed(code, reason)))
    socket.addEventListener('message', ({ data }) =>
      receive(JSON.parse(String(data)) as ServerMessage, { speaker, listener }),
    )
  }
  begin().catch((error: unknown) => end(reasonOf(error)))
  return {
    decide: (callId, approve) => send({ type: 'tool_approval', call_id: callId, approve }),
    stop: () => end(null),
  }
}

type Receiver = { readonly speaker: Speaker; readonly listener: Listener }

function receive(message: ServerMessage, { speaker, listener }: Receiver): void {
  switch (message.type) {
    case 'audio':
      return speaker.play(String(message['audio']))
    case 'audio_interrupted':
      return speaker.interrupt()
    case 'history_updated':
      return listener.said(message['history'] as readonly SpokenItem[])
    case 'tool_approval_required':
      return listener.asked(message as unknown as SpokenApproval)
    case 'guardrail_tripped':
      return listener.failed(`A guardrail has stopped the answer: ${String(message['guardrails'])}.`)
    case 'error':
      return listener.failed(String(message['error']))
  }
}

/** In words for whoever was speaking. */
function whyClosed(code: number, reason: string): string {
  switch (code) {
    case 1011:
      return 'The server could not talk to its provider of voices. Often its key is missing or wrong: the log of the server says more.'
    case 1013:
      return 'The server has as many sessions as it allows. Try again in a moment.'
    case 1001:
      return 'The server is shutting down.'
    case 1006:
      return 'The connection to the server was lost, or refused.'
    default:
      return `The server has ended the conversation: ${reason || `code ${code}`}.`
  }
}
