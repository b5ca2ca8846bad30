export type ImageMime = 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp'

type ImageHeader = { readonly mime: ImageMime; readonly width: number; readonly height: number }

/** An image of more pixels than this takes a model's memory, however few bytes it has. */
export const MAX_PIXELS = 50_000_000

/** What the first bytes of an image say; undefined when they are not those of a PNG, JPEG, GIF or WebP image. */
export function readImageHeader(image: Uint8Array): ImageHeader | undefined {
  const bytes = Buffer.from(image.buffer, image.byteOffset, image.byteLength)
  const header = readPng(bytes) ?? readGif(bytes) ?? readWebp(bytes) ?? readJpeg(bytes)
  return header && header.width > 0 && header.height > 0 ? header : undefined
}

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

/** W3C PNG, section 11.2.1: the header chunk comes first. */
function readPng(bytes: Buffer): ImageHeader | undefined {
  if (bytes.length < 24 || !bytes.subarray(0, 8).equals(PNG) || textAt(bytes, 12) !== 'IHDR') return undefined
  return { mime: 'image/png', width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) }
}

/** GIF89a, section 18: the logical screen. */
function readGif(bytes: Buffer): ImageHeader | undefined {
  if (bytes.length < 10 || !/^GIF8[79]a$/.test(bytes.toString('latin1', 0, 6))) return undefined
  return { mime: 'image/gif', width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) }
}

/** RFC 9649, sections 2.4 to 2.7: lossy, lossless and extended files. */
function readWebp(bytes: Buffer): ImageHeader | undefined {
  if (bytes.length < 30 || textAt(bytes, 0) !== 'RIFF' || textAt(bytes, 8) !== 'WEBP') return undefined
  const mime = 'image/webp'
  switch (textAt(bytes, 12)) {
    case 'VP8 ':
      if (bytes.readUIntBE(23, 3) !== 0x9d012a) return undefined
      return { mime, width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff }
    case 'VP8L': {
      if (bytes[20] !== 0x2f) return undefined
      const size = bytes.readUInt32LE(21)
      return { mime, width: (size & 0x3fff) + 1, height: ((size >>> 14) & 0x3fff) + 1 }
    }
    case 'VP8X':
      return { mime, width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 }
    default:
      return undefined
  }
}

/** ITU-T T.81, annex B: the size is in the frame header, after any number of other segments. */
function readJpeg(bytes: Buffer): ImageHeader | undefined {
  if (bytes.length < 4 || bytes.readUInt16BE(0) !== 0xffd8) return undefined
  for (let at = 2; at + 9 <= bytes.length && bytes[at] === 0xff;) {
    const marker = bytes[at + 1]!
    if (marker === 0xff) at++
    else if (isFrameHeader(marker)) {
      return { mime: 'image/jpeg', height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) }
    } else if (isLastBeforeData(marker)) return undefined
    else at += 2 + bytes.readUInt16BE(at + 2)
  }
  return undefined
}

/** SOF0 to SOF15; C4, C8 and CC are tables and an extension. */
function isFrameHeader(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc
}

/** End of image, or start of scan. */
function isLastBeforeData(marker: number): boolean {
  return marker === 0xd9 || marker === 0xda
}

function textAt(bytes: Buffer, at: number): string {
  return bytes.toString('latin1', at, at + 4)
}
