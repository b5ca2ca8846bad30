import type { WireItem } from '@bureau/protocol'
import { contentMatches, extensionOf, type FileType, findFileType, sniffFileType } from '@bureau/runtime'
import { storable } from '../db/storable.ts'
import { encodingOf } from '../mount/read-text.ts'
import { MAX_PIXELS, readImageHeader } from './image-header.ts'

/** An attachment's content as the model gets it. */
export type ContentPart = { readonly part: WireItem; readonly mime: string }

/** Content that cannot be given to the model: it is not what it claims to be, or has too many pixels. */
export type UnfitContent = 'attachment_type_mismatch' | 'attachment_too_large'

type Detail = 'auto' | 'low' | 'high'

/** Archives and pickles: no model reads them, agents with a sandbox can. */
const OPAQUE = new Set(['.zip', '.tar', '.pkl'])
const OFFICE = new Set(['.docx', '.xlsx', '.pptx', '.doc'])

/** An image as part of a message, whatever its address called it. */
export function imagePart(bytes: Uint8Array, detail: Detail): ContentPart | UnfitContent {
  const header = readImageHeader(bytes)
  if (!header) return 'attachment_type_mismatch'
  if (header.width * header.height > MAX_PIXELS) return 'attachment_too_large'
  const { mime } = header
  return { part: { type: 'input_image', image_url: dataUrl(mime, bytes), detail }, mime }
}

/**
 * A file as part of a message: its name says what it is and its content must agree.
 *
 * PDF and office documents go as files, text as text, images as images. Of archives the model is only told.
 */
export async function filePart(name: string, bytes: Uint8Array): Promise<ContentPart | UnfitContent> {
  const type = await fileTypeOf(name, bytes)
  if (!type) return 'attachment_type_mismatch'
  const { extension, mime } = type
  if (type.kind === 'input_image') return imagePart(bytes, 'auto')
  if (extension === '.pdf' || OFFICE.has(extension)) {
    return { part: { type: 'input_file', filename: name, file_data: dataUrl(mime, bytes) }, mime }
  }
  const note = OPAQUE.has(extension)
    ? `[file ${name} was attached: ${mime}, ${bytes.length} bytes, cannot be shown]`
    : `<file name=${JSON.stringify(name)} type="${mime}">\n${new TextDecoder(encodingOf(bytes)).decode(bytes)}\n</file>`
  return { part: { type: 'input_text', text: storable(note) }, mime }
}

/** The note that replaces an attachment which the model cannot get. */
export function missingPart(name: string): WireItem {
  return { type: 'input_text', text: `[file ${name} was attached, not available]` }
}

async function fileTypeOf(name: string, bytes: Uint8Array): Promise<FileType | undefined> {
  const extension = extensionOf(name)
  if (extension !== '') return (await contentMatches(extension, bytes)) ? findFileType(extension) : undefined
  const sniffed = await sniffFileType(bytes)
  return sniffed ?? (isUtf8(bytes) ? findFileType('.txt') : undefined)
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    return !new TextDecoder('utf-8', { fatal: true }).decode(bytes).includes('\0')
  } catch {
    return false
  }
}

function dataUrl(mime: string, bytes: Uint8Array): string {
  return `data:${mime};base64,${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')}`
}
