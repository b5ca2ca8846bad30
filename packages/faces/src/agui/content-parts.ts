import type { ContentPart } from '@ag-ui/core'
import type { WireItem } from '@bureau/protocol'
import type { AguiPart } from './read-request.ts'

/** A request that cannot become a run. The message is for the caller: it is sent as `RUN_ERROR`. */
export class UnusableInput extends Error {
  override readonly name = 'UnusableInput'
}

const KINDS = new Set(['text', 'image', 'document', 'audio', 'video', 'binary'])

/**
 * Whether a model can take a part. The protocol wants others left out: kinds and sources that are newer than this server, and
 * files of another model provider.
 */
export function isUsable({ type, source }: AguiPart): boolean {
  const { type: kind, provider } = (source ?? {}) as Readonly<Record<string, unknown>>
  if (!KINDS.has(type) || (kind !== undefined && !SOURCES.has(kind))) return false
  return kind !== 'file' || provider === undefined || provider === 'openai'
}

const SOURCES = new Set<unknown>(['url', 'data', 'file'])

/**
 * One usable part of an AG-UI message as a content part of the Responses API.
 *
 * @throws UnusableInput it lacks what its kind must have.
 */
export function toInputPart(part: AguiPart): WireItem {
  switch (part.type) {
    case 'text':
      if (typeof part['text'] !== 'string') throw new UnusableInput('A text part has no text.')
      return { type: 'input_text', text: part['text'] }
    case 'image':
      return imagePart(sourceOf(part))
    case 'document':
    case 'audio':
    case 'video':
      return filePart(sourceOf(part), part)
    case 'binary':
      return binaryPart(part)
    default:
      throw new Error(`no model can take a part of type ${part.type}`)
  }
}

/** Where the bytes of a part are: `url`, base64 `data` with its media type, or a `file` of the model provider. */
type Source = { readonly kind: 'url' | 'data' | 'file'; readonly value: string; readonly mimeType: string | undefined }

function sourceOf(part: AguiPart): Source {
  const { type, value, mimeType } = (part['source'] ?? {}) as Readonly<Record<string, unknown>>
  if (typeof value !== 'string' || value === '') throw new UnusableInput(`A part of type "${part.type}" has no source.`)
  const media = typeof mimeType === 'string' ? mimeType : undefined
  if (type === 'url') return { kind: 'url', value, mimeType: media }
  if (type === 'data' && media !== undefined) return { kind: 'data', value, mimeType: media }
  if (type === 'file') return { kind: 'file', value, mimeType: media }
  throw new UnusableInput(`A part of type "${part.type}" has data without a mimeType.`)
}

function imagePart({ kind, value, mimeType }: Source): WireItem {
  if (kind === 'file') return { type: 'input_image', file_id: value, detail: 'auto' }
  return { type: 'input_image', image_url: kind === 'url' ? value : dataUrl(value, mimeType), detail: 'auto' }
}

function filePart({ kind, value, mimeType }: Source, part: AguiPart): WireItem {
  if (kind === 'file') return { type: 'input_file', file_id: value }
  if (kind === 'url') return { type: 'input_file', file_url: value }
  return { type: 'input_file', filename: fileName(part, mimeType), file_data: dataUrl(value, mimeType) }
}

/** The part of clients from before AG-UI 1.0: `id`, `url` or `data`, and a media type that tells images apart. */
function binaryPart(part: AguiPart): WireItem {
  const mimeType = typeof part['mimeType'] === 'string' ? part['mimeType'] : ''
  for (const [key, kind] of [
    ['id', 'file'],
    ['url', 'url'],
    ['data', 'data'],
  ] as const) {
    const value = part[key]
    if (typeof value !== 'string' || value === '') continue
    const source = { kind, value, mimeType }
    return mimeType.startsWith('image/') ? imagePart(source) : filePart(source, part)
  }
  throw new UnusableInput('A binary part has neither id nor url nor data.')
}

/** The provider wants a name for inline files and takes the kind of file from its extension. */
function fileName(part: AguiPart, mimeType: string | undefined): string {
  const metadata = part['metadata'] as Readonly<Record<string, unknown>> | null | undefined
  const given = part['filename'] ?? metadata?.['filename']
  if (typeof given === 'string' && given !== '') return given
  const subtype = /\/([a-z0-9]+)$/i.exec(mimeType ?? '')?.[1]
  return subtype === undefined ? part.type : `${part.type}.${subtype}`
}

function dataUrl(base64: string, mimeType: string | undefined): string {
  return `data:${mimeType || 'application/octet-stream'};base64,${base64}`
}

/** A tool's output as the content of an AG-UI message: text, or parts where the tool returned images or files. */
export function toAguiContent(output: unknown): string | ContentPart[] {
  if (typeof output === 'string') return output
  const parts = Array.isArray(output) ? output.map(toAguiPart) : []
  if (parts.length === 0 || parts.includes(undefined)) return output === undefined ? '' : JSON.stringify(output)
  return parts as ContentPart[]
}

/**
 * A tool's output as text, for clients that know no parts in results: the texts of its parts. The protocol allows nothing in
 * place of images and files.
 *
 * @param onLoss - Called when there were others.
 */
export function toAguiText(output: unknown, onLoss: () => void): string {
  const content = toAguiContent(output)
  if (typeof content === 'string') return content
  const texts = content.flatMap((part) => (part.type === 'text' ? part.text : []))
  if (texts.length < content.length) onLoss()
  return texts.join('')
}

function toAguiPart(part: WireItem | null): ContentPart | undefined {
  if (part?.type === 'input_text' && typeof part['text'] === 'string') return { type: 'text', text: part['text'] }
  if (part?.type === 'input_image') return mediaPart('image', part['image_url'], part['file_id'])
  if (part?.type === 'input_file') return mediaPart('document', part['file_url'] ?? part['file_data'], part['file_id'])
  return undefined
}

function mediaPart(type: 'image' | 'document', url: unknown, fileId: unknown): ContentPart | undefined {
  if (typeof fileId === 'string') return { type, source: { type: 'file', value: fileId } }
  if (typeof url !== 'string') return undefined
  const inline = /^data:([^;,]+);base64,(.*)$/s.exec(url)
  if (inline) return { type, source: { type: 'data', mimeType: inline[1]!, value: inline[2]! } }
  return { type, source: { type: 'url', value: url } }
}
