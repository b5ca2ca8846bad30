import { promisify } from 'node:util'
import { gunzip, gzip, gzipSync } from 'node:zlib'
import type { EventChunk } from '../runs/settle-run.ts'
import { type Frame, parseFrames } from './frame.ts'

const compress = promisify(gzip)
const decompress = promisify(gunzip)

const FAST = { level: 1 }

/** Compressing this much takes less time than handing it to another thread, */
const SMALL_LENGTH = 32_768
/** and less memory than a compressor has by default, which would be fetched from the system each time. */
const SMALL = { ...FAST, windowBits: 13, memLevel: 5, chunkSize: 4_096 }

/** A stretch of a run's log for durable storage: the text of its frames, compressed. `frames` is not empty. */
export async function encodeChunk(frames: readonly Frame[]): Promise<EventChunk> {
  const text = frames.map((frame) => frame.text).join('')
  const body = text.length <= SMALL_LENGTH ? gzipSync(text, SMALL) : await compress(text, FAST)
  return { firstSeq: frames[0]!.seq, lastSeq: frames.at(-1)!.seq, body }
}

export async function decodeChunk({ body }: Pick<EventChunk, 'body'>): Promise<Frame[]> {
  return parseFrames((await decompress(body)).toString())
}
