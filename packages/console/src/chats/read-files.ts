import { bytes } from '../ui/format.ts'
import type { ChatFile } from './chat.ts'

/** A request may have 32 MiB, and base64 makes a third more of a file. */
const MAX_BYTES = 20_000_000

/** The files of before and those that were added, as data URLs. @throws Error they are too large together. */
export async function readFiles(added: Iterable<File>, before: readonly ChatFile[]): Promise<readonly ChatFile[]> {
  const files = [...added]
  const total = [...before, ...files].reduce((sum, { size }) => sum + size, 0)
  if (total > MAX_BYTES)
    throw new Error(`Files of a message may have ${bytes(MAX_BYTES)} together; these have ${bytes(total)}.`)
  const read = await Promise.all(files.map(readOne))
  const names = new Set(read.map(({ name }) => name))
  return [...before.filter(({ name }) => !names.has(name)), ...read]
}

function readOne(file: File): Promise<ChatFile> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    const { name, size } = file
    const type = file.type || 'application/octet-stream'
    reader.addEventListener('load', () => resolve({ name, size, type, data: reader.result as string }))
    reader.addEventListener('error', () => reject(new Error(`${name} cannot be read.`)))
    reader.readAsDataURL(file)
  })
}
