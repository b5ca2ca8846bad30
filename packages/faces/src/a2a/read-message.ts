import type { WireItem } from '@bureau/protocol'
import { z } from 'zod'
import { jsonOrText } from '../answer.ts'
import type { FaceDecision } from '../face-host.ts'
import { A2aError, invalidParam } from './a2a-error.ts'
import type { Message, Part } from './protocol.ts'

const IMAGE = /^image\/(?:png|jpeg|gif|webp)$/
const TEXT = /^(?:text\/[\w.+-]+|application\/(?:[\w.-]+\+)?(?:json|xml))$/
const PDF = 'application/pdf'

const Decisions = z.object({
  approvals: z
    .array(
      z.object({
        call_id: z.string().max(256),
        approve: z.boolean(),
        reason: z.string().max(10_000).nullish(),
        arguments: z.union([z.string(), z.record(z.string(), z.unknown())]).nullish(),
      }),
    )
    .min(1)
    .max(128),
})

/**
 * What a person has decided about the calls for which a task waits: a data part `{ approvals: [{ call_id, approve, … }] }`.
 *
 * @throws A2aError the message is anything else.
 */
export function decisionsOf({ parts }: Message): FaceDecision[] {
  const [part] = parts
  if (parts.length > 1 || part?.data == null) throw invalidParam('message.parts', DECIDE)
  const parsed = Decisions.safeParse(part.data)
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0]!
    throw invalidParam(['message.parts.0.data', ...path].join('.'), message)
  }
  return parsed.data.approvals.map(({ call_id: callId, approve, reason, arguments: given }) => ({
    callId,
    approve,
    ...(reason != null && { reason }),
    ...(given != null && { arguments: typeof given === 'string' ? jsonOrText(given) : given }),
  }))
}

const DECIDE =
  'the task waits for a decision: send one data part {"approvals":[{"call_id":"…","approve":true}]} and nothing else'

/** What may be sent, for the card. */
export const INPUT_MODES = ['text/plain', 'application/json', 'image/png', 'image/jpeg', 'image/gif', 'image/webp', PDF]

/**
 * A message as the input of a run.
 *
 * @throws A2aError a part is of a type that models are not given, or is not what it says.
 */
export function toInput({ parts }: Message): WireItem[] {
  return [
    { type: 'message', role: 'user', content: parts.map((part, index) => toContent(part, `message.parts.${index}`)) },
  ]
}

function toContent(part: Part, path: string): WireItem {
  const { text, url, raw, data } = part
  if (text != null) return { type: 'input_text', text }
  if (url != null) return ofUrl(part, url, path)
  if (raw != null) return ofBytes(part, raw, path)
  return { type: 'input_text', text: JSON.stringify(data) }
}

function ofUrl({ mediaType, filename }: Part, url: string, path: string): WireItem {
  if (URL.parse(url)?.protocol !== 'https:') throw invalidParam(`${path}.url`, 'must be an https address')
  if (mediaType && IMAGE.test(mediaType)) return { type: 'input_image', image_url: url, detail: 'auto' }
  if (!mediaType || mediaType === PDF) return { type: 'input_file', file_url: url, ...(filename && { filename }) }
  throw notSupported(mediaType)
}

function ofBytes({ mediaType, filename }: Part, raw: string, path: string): WireItem {
  const type = mediaType || 'application/octet-stream'
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(raw)) throw invalidParam(`${path}.raw`, 'must be base64')
  if (TEXT.test(type)) return { type: 'input_text', text: Buffer.from(raw, 'base64').toString() }
  const dataUrl = `data:${type};base64,${raw}`
  if (IMAGE.test(type)) return { type: 'input_image', image_url: dataUrl, detail: 'auto' }
  if (type === PDF) return { type: 'input_file', file_data: dataUrl, filename: filename || 'file.pdf' }
  throw notSupported(type)
}

function notSupported(type: string): A2aError {
  const message = `The media type ${JSON.stringify(type.slice(0, 100))} is not supported. There are: ${INPUT_MODES.join(', ')}.`
  return new A2aError('CONTENT_TYPE_NOT_SUPPORTED', message)
}
