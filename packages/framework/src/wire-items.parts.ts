import { type Draft, type Fields, isFields, merged, sameMeaning, withRemainder } from './wire-items.remainder.ts'

/**
 * A content part of a message as the agents SDK wants it; undefined where the SDK has no such part, or would change its
 * meaning when it sends it.
 */
export function toSdkPart(part: unknown): Draft | undefined {
  return isFields(part) ? sentWhole(part, (key) => LOST_OF_PART.get(part['type'])?.includes(key) ?? true) : undefined
}

/** The same for the parts of a tool's structured output, of which the SDK sends only what it knows. */
export function toSdkOutputPart(part: unknown): Draft | undefined {
  return isFields(part) ? sentWhole(part, () => true) : undefined
}

/** A part of a reasoning summary: an `input_text` in the SDK. */
export function toSdkSummaryPart(part: unknown): Draft | undefined {
  if (!isFields(part) || part['type'] !== 'summary_text') return undefined
  return withRemainder({ type: 'input_text', text: part['text'] }, part, toWireSummaryPart)
}

/** The part on the wire. Parts that are not the SDK's own are passed on as they are. */
export function toWirePart(part: unknown): unknown {
  return isFields(part) ? wirePartFields(part) : part
}

function wirePartFields({ providerData, promptCacheBreakpoint, ...fields }: Fields): Fields {
  return merged({ ...partFields(fields), prompt_cache_breakpoint: promptCacheBreakpoint }, providerData)
}

export function toWireSummaryPart(part: Fields): Fields {
  return merged({ type: 'summary_text', text: part['text'] }, part['providerData'])
}

/** Members of a part that the SDK computes itself and never takes from `providerData`. */
const LOST_OF_PART: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['input_text', ['type', 'text']],
  ['output_text', ['type', 'text']],
  ['refusal', ['type', 'refusal']],
  ['input_image', ['type', 'detail', 'image_url', 'file_id']],
  ['input_file', ['type', 'file_data', 'file_url', 'file_id', 'filename']],
])

function sentWhole(part: Fields, loses: (key: string) => boolean): Draft | undefined {
  const draft = draftPart(part)
  if (!draft) return undefined
  const complete = withRemainder(draft, part, wirePartFields)
  const said = wirePartFields(draft)
  const isLost = ([key, value]: [string, unknown]): boolean =>
    value != null && loses(key) && !sameMeaning(value, said[key])
  return Object.entries(complete.providerData ?? {}).some(isLost) ? undefined : complete
}

function draftPart(part: Fields): Draft | undefined {
  switch (part['type']) {
    case 'input_text':
    case 'output_text':
      return { type: part['type'], text: part['text'] }
    case 'refusal':
      return { type: 'refusal', refusal: part['refusal'] }
    case 'input_image':
      return { type: 'input_image', ...imageSource(part), ...nonEmpty('detail', part['detail']) }
    case 'input_file':
      return { type: 'input_file', ...fileSource(part), ...nonEmpty('filename', part['filename']) }
    default:
      return undefined
  }
}

function imageSource(part: Fields): Fields {
  if (typeof part['image_url'] === 'string') return { image: part['image_url'] }
  return typeof part['file_id'] === 'string' ? { image: { id: part['file_id'] } } : {}
}

function fileSource(part: Fields): Fields {
  if (typeof part['file_id'] === 'string') return { file: { id: part['file_id'] } }
  if (typeof part['file_url'] === 'string') return { file: { url: part['file_url'] } }
  return isInlineData(part['file_data']) ? { file: part['file_data'] } : {}
}

/** The SDK sends other strings as an address, or refuses them. */
function isInlineData(value: unknown): value is string {
  if (typeof value !== 'string' || value.trim() !== value) return false
  return value.startsWith('data:') || /^[A-Za-z0-9+/=]+$/.test(value)
}

function nonEmpty(key: string, value: unknown): Fields {
  return typeof value === 'string' && value !== '' ? { [key]: value } : {}
}

function partFields(part: Fields): Fields {
  switch (part['type']) {
    case 'input_image': {
      const { image, imageUrl, fileId, ...rest } = part
      return {
        ...rest,
        ...(isFields(image) ? { file_id: image['id'] } : { image_url: image ?? imageUrl }),
        ...fileIdOf(fileId),
      }
    }
    case 'input_file': {
      const { file, fileData, fileUrl, fileId, ...rest } = part
      return { ...rest, ...wireFile(file), ...given({ file_data: fileData, file_url: fileUrl }), ...fileIdOf(fileId) }
    }
    case 'audio': {
      const { audio, format, transcript, ...rest } = part
      return { ...rest, type: 'input_audio', input_audio: { data: audio, ...given({ format, transcript }) } }
    }
    default:
      return part
  }
}

function fileIdOf(fileId: unknown): Fields {
  return given({ file_id: fileId })
}

function given(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null))
}

function wireFile(file: unknown): Fields {
  if (isFields(file)) return given({ file_id: file['id'], file_url: file['url'] })
  if (typeof file !== 'string') return {}
  return /^https?:\/\//.test(file) ? { file_url: file } : { file_data: file }
}
