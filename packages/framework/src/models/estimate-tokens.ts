import { estimateTokenCount } from 'tokenx'

/** So much text is looked at; the rest counts as being like it, because prompts can have 30 MB. */
const SAMPLE_CHARACTERS = 32_768
/** What a picture or a file counts, about as much as vendors charge for a picture of medium size. */
const MEDIA_TOKENS = 1_000
/** Not text, or not counted as such by vendors. */
const SKIPPED = new Set(['id', 'call_id', 'type', 'encrypted_content', 'file_id'])

/** Roughly how many tokens all texts in a JSON value have. Most of a long one is only measured, not read. */
export function estimateTokens(value: unknown): number {
  let sample = ''
  let characters = 0
  let media = 0
  for (const text of textsIn(value)) {
    if (text.startsWith('data:')) {
      media++
      continue
    }
    characters += text.length
    if (sample.length < SAMPLE_CHARACTERS) sample += text.slice(0, SAMPLE_CHARACTERS - sample.length)
  }
  const tokensPerCharacter = sample === '' ? 0 : estimateTokenCount(sample) / sample.length
  return Math.ceil(characters * tokensPerCharacter) + media * MEDIA_TOKENS
}

/** Without recursion: what callers send may be nested deeply. */
function* textsIn(value: unknown): Generator<string> {
  const rest: unknown[] = [value]
  while (rest.length > 0) {
    const next = rest.pop()
    if (typeof next === 'string') yield next
    else if (Array.isArray(next)) for (const member of next) rest.push(member)
    else if (typeof next === 'object' && next !== null) for (const member of countedMembers(next)) rest.push(member)
  }
}

function countedMembers(fields: object): unknown[] {
  return Object.entries(fields).flatMap(([name, member]) => (SKIPPED.has(name) ? [] : [member as unknown]))
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
