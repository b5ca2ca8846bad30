import type {
  LanguageModelV4FilePart,
  LanguageModelV4TextPart,
  LanguageModelV4ToolResultOutput,
} from '@ai-sdk/provider'
import type { Fields } from '@bureau/protocol'
import { contentParts, type PartWriter, textOf } from '../wire-content.ts'

type ContentPart = LanguageModelV4TextPart | LanguageModelV4FilePart

/** The content of a user's message; parts of kinds that the AI SDK does not know are left out. */
export function toUserParts(content: unknown): ContentPart[] {
  if (typeof content === 'string') return content === '' ? [] : [textPart(content)]
  return contentParts(content, PARTS)
}

/** What a tool has returned: a text, or texts and files. */
export function toToolOutput(output: unknown): LanguageModelV4ToolResultOutput {
  if (typeof output === 'string') return { type: 'text', value: output }
  if (!Array.isArray(output)) return { type: 'text', value: JSON.stringify(output ?? null) }
  return { type: 'content', value: contentParts(output, PARTS) }
}

const PARTS: PartWriter<ContentPart> = { text: textPart, image: imagePart, file: filePart, audio: audioParts }

function imagePart({ image_url: url }: Fields): ContentPart {
  return typeof url === 'string' ? fileAt(url, 'image/*') : note('An image')
}

function filePart({ file_data: data, file_url: url, filename }: Fields): ContentPart {
  const name = textOf(filename)
  const named = name === '' ? {} : { filename: name }
  if (typeof url === 'string') return { ...fileAt(url, typeOfName(name) ?? 'application/pdf'), ...named }
  if (typeof data !== 'string') return note(`The file ${name}`)
  if (data.startsWith('data:')) return { ...fileAt(data, typeOfName(name) ?? 'application/pdf'), ...named }
  return { ...dataPart(data, typeOfName(name) ?? 'application/pdf'), ...named }
}

function audioParts(audio: unknown): ContentPart[] {
  const { data, format } = (audio ?? {}) as Fields
  if (typeof data !== 'string') return []
  return [dataPart(data, format === 'mp3' ? 'audio/mpeg' : `audio/${textOf(format) || 'wav'}`)]
}

/** Nothing fits two of its parts: otherwise a long text that is none would take the square of its length. */
const DATA_URL = /^data:(?<type>[^;,]*)(?<parameters>(?:;[^,]*)?),(?<data>.*)$/s

/** A file at an address, or in it. The name's ending says what it is where nothing else does. */
function fileAt(address: string, usualType: string): LanguageModelV4FilePart | LanguageModelV4TextPart {
  const { type, parameters = '', data } = DATA_URL.exec(address)?.groups ?? {}
  if (data !== undefined) {
    const base64 = parameters.endsWith(';base64') ? data : Buffer.from(decoded(data)).toString('base64')
    return dataPart(base64, type || usualType)
  }
  if (address.startsWith('data:') || !URL.canParse(address)) return note('A file')
  const url = new URL(address)
  return { type: 'file', mediaType: typeOfName(url.pathname) ?? usualType, data: { type: 'url', url } }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const TYPES: Readonly<Record<string, string>> = {
  csv: 'text/csv',
  gif: 'image/gif',
  html: 'text/html',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  json: 'application/json',
  md: 'text/markdown',
  mp3: 'audio/mpeg',
  mp4: 'video/mp4',
  pdf: 'application/pdf',
  png: 'image/png',
  txt: 'text/plain',
  wav: 'audio/wav',
  webp: 'image/webp',
}

function typeOfName(name: string): string | undefined {
  const ending = /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ''
  return Object.hasOwn(TYPES, ending) ? TYPES[ending] : undefined
}

function dataPart(data: string, mediaType: string): LanguageModelV4FilePart {
  return { type: 'file', mediaType, data: { type: 'data', data } }
}

/** Ids of the default vendor's file service mean nothing elsewhere. */
function note(what: string): LanguageModelV4TextPart {
  return textPart(`[${what} is not shown: this model cannot open stored files.]`)
}

function textPart(text: string): LanguageModelV4TextPart {
  return { type: 'text', text }
}
