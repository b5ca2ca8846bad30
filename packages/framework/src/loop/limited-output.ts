import { type Fields, isFields, type WireItem } from '@bureau/protocol'
import { toText } from './tool-output.ts'

/** Longest text that a tool's output may have: it goes to the model, to the client and into every later request. */
export const MAX_OUTPUT_CHARACTERS = 1_048_576

/** The text, or its first 1,048,576 characters and a note that says so. */
export function limitedText(text: string): string {
  if (text.length <= MAX_OUTPUT_CHARACTERS) return text
  const kept = text.slice(0, MAX_OUTPUT_CHARACTERS).toWellFormed()
  return `${kept}\n[Cut: the output has ${text.length} characters; these are the first ${MAX_OUTPUT_CHARACTERS}.]`
}

/** What a tool returned for a model that gets it as text; as that text, cut, when it is too long. */
export function limitedResult(result: unknown): unknown {
  const text = toText(result)
  return text.length > MAX_OUTPUT_CHARACTERS ? limitedText(text) : result
}

/** What tools of either side call their texts: `output`, the `logs` of `outputs`, the `text` of `results` and parts. */
const TEXTS = ['output', 'logs', 'text', 'stdout', 'stderr']
const LISTS = ['output', 'outputs', 'results']

/** An item with the output of a tool, no text of it too long. The same item when none is; pictures stay whole. */
export function limitedOutput(item: WireItem): WireItem {
  if (!/_call$|_output$/.test(item.type ?? '')) return item
  return limitedMembers(item)
}

function limitedMembers<Item extends Fields>(item: Item): Item {
  const changed: Record<string, unknown> = {}
  for (const name of TEXTS) {
    const text = item[name]
    if (typeof text === 'string' && text.length > MAX_OUTPUT_CHARACTERS) changed[name] = limitedText(text)
  }
  for (const name of LISTS) {
    const list = item[name]
    if (!Array.isArray(list)) continue
    const members = list.map((each: unknown) => (isFields(each) ? limitedMembers(each) : each))
    if (members.some((each, at) => each !== list[at])) changed[name] = members
  }
  return Object.keys(changed).length === 0 ? item : { ...item, ...changed }
}
