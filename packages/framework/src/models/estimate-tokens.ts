import { estimateTokenCount } from 'tokenx'

/** Of a long text every so many parts, spread evenly over all of it, are read: prompts can have 30 MB. */
const SLICES = 64
const SLICE_CHARACTERS = 512
/** No tokenizer needs less for long, so nothing that is sent, white space for example, counts as nothing. */
const MAX_BYTES_PER_TOKEN = 8
/** What a picture or a file counts, about as much as vendors charge for a picture of medium size. */
const MEDIA_TOKENS = 1_000
/** Members that hold a picture or a file, if what they hold is a data URL. */
const MEDIA = new Set(['image_url', 'file_data'])
/** Not text, or not counted as such by vendors. */
const SKIPPED = new Set(['id', 'call_id', 'type', 'encrypted_content', 'file_id'])

/**
 * Roughly how many tokens the names and texts in a JSON value have. Of a long one, samples are read: the rest of each
 * part counts as being like its beginning.
 */
export function estimateTokens(value: unknown): number {
  const { texts, media } = contentsOf(value)
  const characters = texts.reduce((sum, { length }) => sum + length, 0)
  const sample = sampleOf(texts, Math.max(SLICE_CHARACTERS, Math.ceil(characters / SLICES)))
  const perCharacter = sample.text === '' ? 0 : countTokens(sample.text) / sample.characters
  return Math.ceil(characters * perCharacter) + media * MEDIA_TOKENS
}

function countTokens(text: string): number {
  return Math.max(estimateTokenCount(text), Buffer.byteLength(text) / MAX_BYTES_PER_TOKEN)
}

/** The beginning of each `period` of characters, the texts taken as one; of short texts this is all. */
function sampleOf(texts: readonly string[], period: number): { text: string; characters: number } {
  const slices: string[] = []
  let characters = 0
  let at = 0
  for (const text of texts) {
    for (let from = 0; from < text.length;) {
      const into = at % period
      const isRead = into < SLICE_CHARACTERS
      const length = Math.min((isRead ? SLICE_CHARACTERS : period) - into, text.length - from)
      if (isRead) {
        slices.push(text.slice(from, from + length))
        characters += length
      }
      from += length
      at += length
    }
  }
  return { text: slices.join(' '), characters }
}

type Contents = { readonly texts: readonly string[]; readonly media: number }

/** Without recursion: what callers send may be nested deeply. */
function contentsOf(value: unknown): Contents {
  const texts: string[] = []
  let media = 0
  const rest: unknown[] = [value]
  while (rest.length > 0) {
    const next = rest.pop()
    if (typeof next === 'string') texts.push(next)
    else if (Array.isArray(next)) for (const member of next) rest.push(member)
    else if (typeof next === 'object' && next !== null) media += addMembers(next, texts, rest)
  }
  return { texts, media }
}

/** Adds the names of an object's members to the texts and their values to the rest. Returns how many are pictures or files. */
function addMembers(fields: object, texts: string[], rest: unknown[]): number {
  let media = 0
  for (const name of Object.keys(fields)) {
    const member = (fields as Readonly<Record<string, unknown>>)[name]
    const isText = typeof member === 'string'
    if (isText && SKIPPED.has(name)) continue
    texts.push(name)
    if (isText && MEDIA.has(name) && member.startsWith('data:')) media++
    else rest.push(member)
  }
  return media
}

const DELTA = '"delta":"'
const QUOTE = 34
const BACKSLASH = 92

/** How many characters the delta of an event's JSON text has, without parsing it. */
export function deltaCharacters(json: string): number {
  const start = json.indexOf(DELTA)
  if (start < 0) return 0
  let characters = 0
  for (let at = start + DELTA.length; at < json.length; at++, characters++) {
    const code = json.charCodeAt(at)
    if (code === QUOTE) break
    if (code === BACKSLASH) at++
  }
  return characters
}

/** Models stream a token at a time, as a rule; what came in larger pieces has about four characters a token. */
export function tokensOfDeltas(deltas: number, characters: number): number {
  return Math.max(deltas, Math.ceil(characters / 4))
}
