import { type Fields, isFields } from '@bureau/protocol'
import { InvalidJson, parseJson, problemSentence } from '@bureau/runtime'
import { ClientEvent, refusalOf } from './client-events.ts'
import type { ToolApproval, VoiceSession } from './voice-session.ts'

/** What a client wants, or why it is not understood. */
type ClientMessage =
  | { readonly kind: 'audio'; readonly audio: string; readonly commit: boolean }
  | { readonly kind: 'commit' }
  | { readonly kind: 'interrupt' }
  | { readonly kind: 'approval'; readonly callId: string; readonly approve: boolean }
  | { readonly kind: 'event'; readonly event: ClientEvent }
  | { readonly kind: 'ignored'; readonly because: string }

/** Reads one frame of a client: JSON text with a `type`, or raw audio in a binary frame. Never throws. */
export function readClientMessage(data: Buffer, isBinary: boolean): ClientMessage {
  if (isBinary) return { kind: 'audio', audio: data.toString('base64'), commit: false }
  const message = readObject(data.toString())
  if (!message) return { kind: 'ignored', because: 'the text is not a JSON object' }
  const { type } = message
  if (typeof type !== 'string' || type === '') return { kind: 'ignored', because: 'the message has no type' }
  switch (type) {
    case 'input_audio_buffer':
      return readAudio(message)
    case 'commit_audio':
      return { kind: 'commit' }
    case 'interrupt':
      return { kind: 'interrupt' }
    case 'tool_approval':
      return readApproval(message)
    default:
      return readEvent(message, type)
  }
}

function readEvent(message: Fields, type: string): ClientMessage {
  const parsed = ClientEvent.safeParse(message, { error: problemSentence })
  if (parsed.success) return { kind: 'event', event: parsed.data }
  return { kind: 'ignored', because: refusalOf(parsed.error, type) }
}

function readObject(text: string): Fields | undefined {
  try {
    const value = parseJson(Buffer.from(text))
    return isFields(value) ? value : undefined
  } catch (error) {
    if (error instanceof InvalidJson) return undefined
    throw error
  }
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

function readAudio({ audio, commit }: Fields): ClientMessage {
  if (typeof audio !== 'string' || !BASE64.test(audio)) return { kind: 'ignored', because: 'the audio is not base64' }
  return { kind: 'audio', audio, commit: commit === true }
}

function readApproval({ call_id: callId, approve }: Fields): ClientMessage {
  if (typeof callId === 'string' && typeof approve === 'boolean') return { kind: 'approval', callId, approve }
  return { kind: 'ignored', because: 'an approval names its call_id and says approve: true or false' }
}

/** Carries out a message; a reason when it cannot be. */
export async function applyClientMessage(
  message: ClientMessage,
  voice: VoiceSession,
  approvals: Map<string, ToolApproval>,
): Promise<string | undefined> {
  switch (message.kind) {
    case 'audio':
      if (message.audio !== '') voice.send({ type: 'input_audio_buffer.append', audio: message.audio })
      if (message.commit) voice.send({ type: 'input_audio_buffer.commit' })
      return undefined
    case 'commit':
      voice.send({ type: 'input_audio_buffer.commit' })
      return voice.requestResponse() as undefined
    case 'interrupt':
      return voice.interrupt() as undefined
    case 'event':
      return voice.send(message.event) as undefined
    case 'approval': {
      const item = approvals.get(message.callId)
      if (!item) return 'no call waits for this approval'
      approvals.delete(message.callId)
      await (message.approve ? voice.session.approve(item) : voice.session.reject(item))
      return undefined
    }
    case 'ignored':
      return message.because
  }
}
