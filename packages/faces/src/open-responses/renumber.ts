/** Where the two numbers of an event are in its text. */
type Numbers = {
  readonly indexStart: number
  readonly indexEnd: number
  readonly seqStart: number
  readonly seqEnd: number
}

const INDEX = '"output_index":'
const SEQ = '"sequence_number":'

/**
 * Finds the place of an event's item and the event's own number in its JSON text: this is the path of every token, which is
 * not parsed. A quoted name and a colon are a member, because quotes within strings are escaped. Undefined: the text is laid
 * out in another way.
 */
export function findNumbers(json: string): Numbers | undefined {
  const index = json.indexOf(INDEX)
  const seq = json.indexOf(SEQ)
  // Line breaks would end the line of the frame.
  if (index < 0 || seq < 0 || json.includes('\n')) return undefined
  const indexStart = index + INDEX.length
  const seqStart = seq + SEQ.length
  const indexEnd = endOfNumber(json, indexStart)
  const seqEnd = endOfNumber(json, seqStart)
  return indexEnd === indexStart || seqEnd === seqStart ? undefined : { indexStart, indexEnd, seqStart, seqEnd }
}

function endOfNumber(json: string, start: number): number {
  let end = start
  while (isDigit(json.charCodeAt(end))) end++
  return end
}

const isDigit = (code: number): boolean => code >= 48 && code <= 57

/** The same text with other numbers. */
export function renumber(json: string, at: Numbers, index: number, seq: number): string {
  const { indexStart, indexEnd, seqStart, seqEnd } = at
  return indexStart < seqStart
    ? `${json.slice(0, indexStart)}${index}${json.slice(indexEnd, seqStart)}${seq}${json.slice(seqEnd)}`
    : `${json.slice(0, seqStart)}${seq}${json.slice(seqEnd, indexStart)}${index}${json.slice(indexEnd)}`
}

/** The same text with another `item_id`. */
export function renameItem(json: string, from: string, to: string): string {
  return json.replace(`"item_id":${JSON.stringify(from)}`, () => `"item_id":${JSON.stringify(to)}`)
}
