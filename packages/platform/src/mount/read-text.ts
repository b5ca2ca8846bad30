import type { Readable } from 'node:stream'
import { sniffFileType } from '@bureau/runtime'
import type { OpenedMountFile } from './agency-mount.ts'

/**
 * What is in a file of the mount: lines of text, in batches as they are read, or something that is not text.
 *
 * The lines must be read to their end or `return()`ed, which closes the file.
 */
type FileText =
  | { readonly kind: 'text'; readonly lines: AsyncGenerator<readonly string[], void> }
  | { readonly kind: 'binary'; readonly mime: string }

/**
 * Looks at the beginning of a file to see whether it is text. Files are closed unless they are.
 *
 * @param maxLineLength - The rest of a longer line is dropped, but for one character that tells that it was longer.
 */
export async function readText({ stream }: OpenedMountFile, maxLineLength: number): Promise<FileText> {
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  const first = await chunks.next()
  const start: Buffer = first.done ? Buffer.alloc(0) : first.value
  const encoding = encodingOf(start)
  const sniffed = await sniffFileType(start)
  if (sniffed || (encoding === 'utf-8' && start.includes(0))) {
    stream.destroy()
    return { kind: 'binary', mime: sniffed?.mime ?? 'application/octet-stream' }
  }
  return { kind: 'text', lines: linesOf(stream, { start, chunks, encoding, maxLineLength }) }
}

type Reading = {
  readonly start: Buffer
  readonly chunks: AsyncIterator<Buffer>
  readonly encoding: string
  readonly maxLineLength: number
}

async function* linesOf(stream: Readable, reading: Reading): AsyncGenerator<readonly string[], void> {
  const { start, chunks, encoding, maxLineLength } = reading
  const decoder = new TextDecoder(encoding)
  const cut = (line: string): string => line.slice(0, maxLineLength + 1)
  let rest = ''
  try {
    for (let chunk: Buffer | undefined = start; chunk;) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = cut(lines.pop() ?? '')
      if (lines.length > 0) yield lines.map((line) => cut(line.replace(/\r$/, '')))
      const next: IteratorResult<Buffer, unknown> = await chunks.next()
      chunk = next.done ? undefined : next.value
    }
    rest += decoder.decode()
    if (rest !== '') yield [cut(rest)]
  } finally {
    stream.destroy()
  }
}

/** A byte order mark says what it is; without one it is UTF-8. */
export function encodingOf([first, second]: Uint8Array): 'utf-8' | 'utf-16le' | 'utf-16be' {
  if (first === 0xff && second === 0xfe) return 'utf-16le'
  return first === 0xfe && second === 0xff ? 'utf-16be' : 'utf-8'
}
