import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { storable } from '../db/storable.ts'
import { decodeChunk, encodeChunk } from './event-chunk.ts'
import { frameData, inParts, numberFrame, parseFrames } from './frame.ts'

const anyText = fc.string({ unit: 'binary' })

describe('frameData', () => {
  test('is one line of JSON that says what records can hold', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), fc.constantFrom(undefined, 2), (value, indent) => {
        const data = frameData(JSON.stringify(value, null, indent))
        expect(data).not.toMatch(/[\r\n]/)
        expect(JSON.parse(data)).toEqual(JSON.parse(JSON.stringify(storable(value))))
      }),
    )
  })

  test.each([
    [String.raw`{"a":"\u0000"}`, String.raw`{"a":"\ufffd"}`],
    [String.raw`{"a":"\\u0000"}`, String.raw`{"a":"\\u0000"}`],
    [String.raw`{"a":"\\\u0000"}`, String.raw`{"a":"\\\ufffd"}`],
    [String.raw`{"a":"\ud83d\ude00"}`, String.raw`{"a":"\ud83d\ude00"}`],
    [String.raw`{"a":"\ude00\ud83d"}`, String.raw`{"a":"\ufffd\ufffd"}`],
    [String.raw`{"a":"\uD83D\uD83D\uDE00"}`, String.raw`{"a":"\ufffd\uD83D\uDE00"}`],
    ['{"n": 1.0,\r\n"big":12345678901234567890}', '{"n": 1.0,  "big":12345678901234567890}'],
  ])('%s becomes %s', (json, data) => expect(frameData(json)).toBe(data))
})

describe('chunks of frames', () => {
  test('come back as they were', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyText, { minLength: 1 }), fc.nat(), async (texts, before) => {
        const frames = texts.map((text, index) => {
          const event = index % 2 === 0 ? '' : 'event: messages\n'
          return numberFrame(before + index + 1, `${event}data: ${frameData(JSON.stringify(text))}\n\n`)
        })
        const chunk = await encodeChunk(frames)
        expect(chunk).toMatchObject({ firstSeq: before + 1, lastSeq: before + texts.length })
        expect(await decodeChunk(chunk)).toEqual(frames)
      }),
    )
  })

  test.each(['id: 1\ndata: {}', 'data: {}\n\n', 'id: x\ndata: {}\n\n', 'noise'])('damage is noticed: %j', (text) => {
    expect(() => parseFrames(text)).toThrow('damaged')
  })

  test('parts hold about 64 KiB and together everything', () => {
    const frames = Array.from({ length: 300 }, (_, index) => numberFrame(index + 1, 'x'.repeat(1000)))
    frames.push(numberFrame(301, 'y'.repeat(500_000)), numberFrame(302, 'z'))
    const parts = [...inParts(frames)]
    expect(parts.flat()).toEqual(frames)
    expect(parts.map((part) => part.length)).toEqual([66, 66, 66, 66, 37, 1])
  })
})
