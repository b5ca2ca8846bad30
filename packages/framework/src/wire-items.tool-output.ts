import { toWirePart } from './wire-items.parts.ts'
import { type Fields, isFields } from './wire-items.remainder.ts'

/** The output of a tool as a `function_call_output` carries it: text, or a list of `input_*` parts. */
export function toWireToolOutput(output: unknown): unknown {
  if (Array.isArray(output)) return output.map(toWirePart)
  if (!isFields(output)) return output
  if (output['type'] === 'text' && typeof output['text'] === 'string') return output['text']
  if (output['type'] === 'image') return [toWirePart(imagePart(output))]
  if (output['type'] === 'file') return [toWirePart(filePart(output))]
  return output
}

/** Tools may return a picture as an address, a file id, base64 text or bytes. */
function imagePart(output: Fields): Fields {
  const { image, ...rest } = output
  if (!isFields(image)) return { ...rest, type: 'input_image', image }
  const source = image['url'] ?? inlineData(image, 'image/png') ?? { id: image['fileId'] ?? image['id'] }
  return { ...rest, type: 'input_image', image: source }
}

function filePart(output: Fields): Fields {
  const { file, ...rest } = output
  if (!isFields(file)) return { ...rest, type: 'input_file', file }
  const filename = file['filename'] === undefined ? {} : { filename: file['filename'] }
  return { ...rest, type: 'input_file', file: inlineData(file, 'text/plain') ?? file, ...filename }
}

function inlineData({ data, mediaType }: Fields, defaultMediaType: string): string | undefined {
  const prefix = `data:${typeof mediaType === 'string' ? mediaType : defaultMediaType};base64,`
  if (typeof data === 'string') return data.startsWith('data:') ? data : prefix + data
  return data instanceof Uint8Array ? prefix + Buffer.from(data).toString('base64') : undefined
}
