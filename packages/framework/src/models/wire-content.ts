import { type Fields, isFields, type WireItem } from '@bureau/protocol'

/** How a model interface writes what a message or a tool's output holds. */
export type PartWriter<Part> = {
  readonly text: (text: string) => Part
  readonly image: (part: Fields) => Part
  readonly file: (part: Fields) => Part
  /** Takes the member `input_audio`, which may be anything. */
  readonly audio: (audio: unknown) => readonly Part[]
}

/** The content parts of a list; parts of kinds that only the Responses API knows are left out. */
export function contentParts<Part>(content: unknown, write: PartWriter<Part>): Part[] {
  return listOf(content).flatMap((part) => {
    switch (part['type']) {
      case 'input_text':
      case 'output_text':
        return [write.text(textOf(part['text']))]
      case 'input_image':
        return [write.image(part)]
      case 'input_file':
        return [write.file(part)]
      case 'input_audio':
        return write.audio(part['input_audio'])
      default:
        return []
    }
  })
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** The objects in a list; none of anything else. */
export function listOf(value: unknown): Fields[] {
  return Array.isArray(value) ? value.filter(isFields) : []
}

/** The outputs of a conversation's calls. Servers that count their calls anew in each answer give several of them one id. */
export class CallOutputs {
  readonly #outputs = new Map<string, WireItem[]>()

  constructor(input: readonly WireItem[]) {
    for (const item of input) {
      if (item.type !== 'function_call_output') continue
      const { call_id: id = '' } = item
      const outputs = this.#outputs.get(id)
      if (outputs) outputs.push(item)
      else this.#outputs.set(id, [item])
    }
  }

  /** The output of the next call of this id; undefined: it has none. */
  take(callId: string): WireItem | undefined {
    return this.#outputs.get(callId)?.shift()
  }
}
