import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readImageHeader } from './image-header.ts'
import { imageBytes, IMAGES, pngHeader } from './test-images.contract.ts'

const mimes = Object.keys(IMAGES) as (keyof typeof IMAGES)[]
const bytes = (...parts: (string | number[])[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : Buffer.from(part))))

describe('readImageHeader', () => {
  test.each(mimes)('reads type and size of %s', (mime) => {
    expect(readImageHeader(imageBytes(mime))).toEqual({ mime, width: 1, height: 1 })
  })

  test('reads sizes of every layout', () => {
    expect(readImageHeader(pngHeader(70_000, 3))).toEqual({ mime: 'image/png', width: 70_000, height: 3 })
    const gif = bytes('GIF87a', [0x2c, 0x01, 0xff, 0xff])
    expect(readImageHeader(gif)).toEqual({ mime: 'image/gif', width: 300, height: 65_535 })
    const extended = bytes('RIFF\0\0\0\0WEBPVP8X', [10, 0, 0, 0, 0, 0, 0, 0, 0x2b, 0x01, 0, 0xff, 0x3f, 0, 0, 0])
    expect(readImageHeader(extended)).toEqual({ mime: 'image/webp', width: 300, height: 16_384 })
    const lossless = bytes('RIFF\0\0\0\0WEBPVP8L', [5, 0, 0, 0, 0x2f, 0x2b, 0xc1, 0x31, 0x00], '\0\0\0\0\0')
    expect(readImageHeader(lossless)).toEqual({ mime: 'image/webp', width: 300, height: 200 })
    const jpeg = bytes([
      0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xff, 0xc4, 0, 2, 0xff, 0xc0, 0, 11, 8, 0, 200, 1, 44,
    ])
    expect(readImageHeader(jpeg)).toEqual({ mime: 'image/jpeg', width: 300, height: 200 })
  })

  test.each([
    ['nothing', bytes('')],
    ['text', bytes('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>')],
    ['a size of nothing', pngHeader(0, 5)],
    ['a PNG without a header chunk', bytes('\x89PNG\r\n\x1a\n', '\0\0\0\rIDAT', '\0\0\0\x01\0\0\0\x01')],
    ['a GIF of an unknown version', bytes('GIF88a', [1, 0, 1, 0])],
    ['a WebP of an unknown layout', bytes('RIFF\0\0\0\0WEBPVP9 ', '\x01'.repeat(20))],
    ['a lossy WebP without its start code', bytes('RIFF\0\0\0\0WEBPVP8 ', '\x01'.repeat(20))],
    ['a lossless WebP without its signature', bytes('RIFF\0\0\0\0WEBPVP8L', '\x01'.repeat(20))],
    ['a JPEG that begins its data without a size', bytes([0xff, 0xd8, 0xff, 0xda, 0, 2], '\0'.repeat(20))],
    ['a JPEG that ends at once', bytes([0xff, 0xd8, 0xff, 0xd9], '\0'.repeat(20))],
    ['a JPEG that goes astray', bytes([0xff, 0xd8, 0xff, 0xe0, 0, 3, 1, 2], '\0'.repeat(20))],
  ])('%s is no image', (_what, content) => expect(readImageHeader(content)).toBeUndefined())

  test('every cut and every damage is survived', () => {
    for (const mime of mimes) {
      const image = imageBytes(mime)
      for (let length = 0; length < 8; length++) expect(readImageHeader(image.subarray(0, length))).toBeUndefined()
      for (let length = 8; length < image.length; length++) readImageHeader(image.subarray(0, length))
    }
    const damaged = fc.tuple(fc.constantFrom(...mimes), fc.nat({ max: 40 }), fc.uint8Array({ maxLength: 40 }))
    fc.assert(
      fc.property(damaged, ([mime, at, noise]) => {
        const image = imageBytes(mime)
        image.set(noise.subarray(0, image.length - at), at)
        const header = readImageHeader(image)
        if (header) expect(header.width * header.height).toBeGreaterThan(0)
      }),
      { numRuns: 500 },
    )
  })
})
