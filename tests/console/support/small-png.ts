import { crc32, deflateSync, inflateSync } from 'node:zlib'

const SIGNATURE_BYTES = 8
const COLORS = 256
/** Squared distance of colours that nobody tells apart. */
const ALIKE = 24
const TRUE_COLOR = 2
const PALETTE = 3

/**
 * The same picture with its 256 most frequent colours, in a third of the bytes: pages have few colours, and those at the edges of
 * letters are close to others. For screenshots as Chromium writes them: 8 bits, no transparency, not interlaced.
 */
export function smallPng(png: Buffer): Buffer {
  const chunks = chunksOf(png)
  const header = Buffer.from(chunks.find(({ type }) => type === 'IHDR')!.data)
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)]
  if (header[8] !== 8 || header[9] !== TRUE_COLOR || header[12] !== 0) throw new Error('not a screenshot of Chromium')
  const lines = inflateSync(Buffer.concat(chunks.filter(({ type }) => type === 'IDAT').map(({ data }) => data)))
  const colors = colorsOf(lines, width, height)
  const palette = mostFrequent(colors)
  const nearest = new Map<number, number>()
  const indexed = Buffer.alloc((width + 1) * height) // each line begins with its filter: none
  for (const [at, color] of colors.entries()) {
    let index = nearest.get(color)
    if (index === undefined) nearest.set(color, (index = nearestIn(palette, color)))
    indexed[at + Math.floor(at / width) + 1] = index
  }
  header[9] = PALETTE
  return Buffer.concat([
    png.subarray(0, SIGNATURE_BYTES),
    chunk('IHDR', header),
    chunk('PLTE', Buffer.from(palette.flatMap(channels))),
    chunk('IDAT', deflateSync(indexed, { level: 9, memLevel: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

type Chunk = { readonly type: string; readonly data: Buffer }

function chunksOf(png: Buffer): Chunk[] {
  const chunks: Chunk[] = []
  for (let at = SIGNATURE_BYTES; at < png.length;) {
    const end = at + 8 + png.readUInt32BE(at)
    chunks.push({ type: png.toString('latin1', at + 4, at + 8), data: png.subarray(at + 8, end) })
    at = end + 4
  }
  return chunks
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  checksum.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, checksum])
}

/** The colours of all pixels, line by line, with the filters of the lines undone. */
function colorsOf(lines: Buffer, width: number, height: number): Uint32Array {
  const stride = width * 3
  const colors = new Uint32Array(width * height)
  let above = new Uint8Array(stride)
  for (let y = 0; y < height; y++) {
    const filter = lines[y * (stride + 1)]!
    const line = new Uint8Array(lines.subarray(y * (stride + 1) + 1, (y + 1) * (stride + 1)))
    for (let x = 0; x < stride; x++) {
      const [left, up, corner] = x < 3 ? [0, above[x]!, 0] : [line[x - 3]!, above[x]!, above[x - 3]!]
      line[x]! += [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter]!
    }
    for (let x = 0; x < width; x++) {
      colors[y * width + x] = (line[x * 3]! << 16) | (line[x * 3 + 1]! << 8) | line[x * 3 + 2]!
    }
    above = line
  }
  return colors
}

/** Of the three neighbours, the one that is nearest to left + up - corner. */
function paeth(left: number, up: number, corner: number): number {
  const [toLeft, toUp, toCorner] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)]
  if (toLeft <= toUp && toLeft <= toCorner) return left
  return toUp <= toCorner ? up : corner
}

/** The most frequent ones that differ: a shade of a frequent colour must not take the place of the only green. */
function mostFrequent(colors: Uint32Array): number[] {
  const counts = new Map<number, number>()
  for (const color of colors) counts.set(color, (counts.get(color) ?? 0) + 1)
  const palette: number[] = []
  for (const [color] of [...counts].toSorted(([, a], [, b]) => b - a)) {
    if (palette.every((each) => distance(each, color) > ALIKE)) palette.push(color)
    if (palette.length === COLORS) break
  }
  return palette
}

const channels = (color: number): number[] => [color >> 16, (color >> 8) & 255, color & 255]

function nearestIn(palette: readonly number[], color: number): number {
  const distances = palette.map((each) => distance(each, color))
  return distances.indexOf(Math.min(...distances))
}

function distance(one: number, other: number): number {
  const [a, b] = [channels(one), channels(other)]
  return a.reduce((sum, channel, at) => sum + (channel - b[at]!) ** 2, 0)
}
