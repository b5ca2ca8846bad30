import { type Fields, isFields } from '@bureau/protocol'
import { inspect } from 'node:util'
import { present } from '../options.ts'

/** What a tool has returned as the output of a call: text, or a list of parts where it holds pictures or files. */
export function toWireOutput(value: unknown): unknown {
  const parts = partsOf(value)
  if (!parts) return toText(value)
  const wire = parts.map(wirePart)
  return wire.every(({ type }) => type === 'input_text') ? wire.map(({ text }) => text).join('\n') : wire
}

/** The same as text alone, for traces and for agents that stop at their tools. */
export function toText(value: unknown): string {
  if (typeof value === 'string') return value
  const parts = partsOf(value)
  if (parts?.every(({ type }) => type === 'text')) return parts.map(({ text }) => String(text)).join('\n')
  if (typeof value !== 'object' || value === null) return String(value)
  try {
    return JSON.stringify(value)
  } catch {
    return inspect(value)
  }
}

/** Parts of a structured output; undefined for any other value. */
function partsOf(value: unknown): Fields[] | undefined {
  const list: unknown[] = Array.isArray(value) ? value : [value]
  return list.length > 0 && list.every(isPart) ? list : undefined
}

/** What a tool returns may have a `type` of its own, as the entries of a folder do: a picture or a file holds one, too. */
function isPart(value: unknown): value is Fields {
  if (!isFields(value)) return false
  const { type, text } = value
  if (type === 'text' || type === 'input_text') return typeof text === 'string'
  const sources = PICTURES.has(type) ? PICTURE_SOURCES : FILES.has(type) ? FILE_SOURCES : []
  return sources.some((name) => isSource(value[name]))
}

function isSource(value: unknown): boolean {
  if (!isFields(value)) return typeof value === 'string' && value !== ''
  return ['id', 'fileId', 'url', 'data'].some((name) => value[name] !== undefined)
}

const PICTURES = new Set<unknown>(['image', 'input_image'])
const PICTURE_SOURCES = ['image', 'image_url', 'file_id', 'data']
const FILES = new Set<unknown>(['file', 'input_file'])
const FILE_SOURCES = ['file', 'file_url', 'file_id', 'file_data']

function wirePart(part: Fields): Fields {
  if (part['type'] === 'text' || part['type'] === 'input_text') return { type: 'input_text', text: part['text'] }
  return PICTURES.has(part['type']) ? picturePart(part) : filePart(part)
}

/** A picture: an address, a data URL, base64 with a media type (as MCP servers send it), or the id of a stored file. */
function picturePart({ image, image_url: url, file_id: id, data, mimeType, detail }: Fields): Fields {
  const more = present({ detail })
  const source = image ?? url ?? data
  if (id !== undefined) return { type: 'input_image', file_id: id, ...more }
  if (isFields(source)) {
    const { id: storedId, fileId, url: address, data: bytes, mediaType } = source
    if (storedId !== undefined || fileId !== undefined)
      return { type: 'input_image', file_id: storedId ?? fileId, ...more }
    return { type: 'input_image', image_url: address ?? dataUrl(bytes, mediaType ?? mimeType ?? 'image/png'), ...more }
  }
  const text = String(source)
  const isAddress = /^(?:data:|https?:\/\/)/.test(text)
  return { type: 'input_image', image_url: isAddress ? text : dataUrl(text, mimeType ?? 'image/png'), ...more }
}

function filePart({ file, file_url: url, file_id: id, file_data: data, filename }: Fields): Fields {
  const named = present({ filename })
  if (id !== undefined) return { type: 'input_file', file_id: id, ...named }
  if (url !== undefined) return { type: 'input_file', file_url: url, ...named }
  if (isFields(file)) {
    const { id: storedId, fileId, url: address, data: bytes, mediaType, filename: name } = file
    const own = present({ filename: filename ?? name })
    if (storedId !== undefined || fileId !== undefined)
      return { type: 'input_file', file_id: storedId ?? fileId, ...own }
    if (address !== undefined) return { type: 'input_file', file_url: address, ...own }
    return { type: 'input_file', file_data: dataUrl(bytes, mediaType ?? 'application/octet-stream'), ...own }
  }
  const text = String(file ?? data)
  return /^https?:\/\//.test(text)
    ? { type: 'input_file', file_url: text, ...named }
    : { type: 'input_file', file_data: text, ...named }
}

function dataUrl(bytes: unknown, mediaType: unknown): string {
  if (typeof bytes === 'string' && bytes.startsWith('data:')) return bytes
  const base64 = bytes instanceof Uint8Array ? Buffer.from(bytes).toString('base64') : String(bytes)
  return `data:${String(mediaType)};base64,${base64}`
}
