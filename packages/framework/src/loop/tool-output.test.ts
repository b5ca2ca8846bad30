import { describe, expect, test } from 'vitest'
import { toText, toWireOutput } from './tool-output.ts'

const PNG = 'data:image/png;base64,AQI='

describe('toWireOutput', () => {
  test.each<[string, object, object]>([
    ['a data URL', { image: PNG }, { image_url: PNG }],
    ['an address', { image: 'https://a.test/x.png' }, { image_url: 'https://a.test/x.png' }],
    [
      'base64, as MCP servers send it',
      { data: 'AQI=', mimeType: 'image/webp' },
      { image_url: 'data:image/webp;base64,AQI=' },
    ],
    ['base64 without a media type', { image: 'AQI=' }, { image_url: PNG }],
    [
      'bytes',
      { image: { data: new Uint8Array([1, 2]), mediaType: 'image/gif' } },
      { image_url: 'data:image/gif;base64,AQI=' },
    ],
    ['an address in an object', { image: { url: 'https://a.test/x.png' } }, { image_url: 'https://a.test/x.png' }],
    ['a stored file', { image: { fileId: 'file-1' } }, { file_id: 'file-1' }],
    ['a stored file by its id', { file_id: 'file-1', detail: 'low' }, { file_id: 'file-1', detail: 'low' }],
  ])('a picture: %s', (_, part, expected) => {
    expect(toWireOutput({ type: 'image', ...part })).toEqual([{ type: 'input_image', ...expected }])
  })

  test.each<[string, object, object]>([
    ['a data URL', { file: 'data:text/plain;base64,AQI=' }, { file_data: 'data:text/plain;base64,AQI=' }],
    ['an address', { file: 'https://a.test/x.pdf' }, { file_url: 'https://a.test/x.pdf' }],
    ['an address by its name on the wire', { file_url: 'https://a.test/x.pdf' }, { file_url: 'https://a.test/x.pdf' }],
    ['a stored file', { file: { id: 'file-1' } }, { file_id: 'file-1' }],
    ['a stored file by its id', { file_id: 'file-1', filename: 'a' }, { file_id: 'file-1', filename: 'a' }],
    ['an address in an object', { file: { url: 'https://a.test/x.pdf' } }, { file_url: 'https://a.test/x.pdf' }],
    [
      'bytes with a name',
      { file: { data: new Uint8Array([1, 2]), mediaType: 'application/pdf', filename: 'a.pdf' } },
      { file_data: 'data:application/pdf;base64,AQI=', filename: 'a.pdf' },
    ],
    ['bytes of no kind', { file: { data: 'AQI=' } }, { file_data: 'data:application/octet-stream;base64,AQI=' }],
  ])('a file: %s', (_, part, expected) => {
    expect(toWireOutput({ type: 'file', ...part })).toEqual([{ type: 'input_file', ...expected }])
  })

  test('several texts are one', () => {
    const texts = ['a', 'b'].map((text) => ({ type: 'text', text }))
    expect(toWireOutput(texts)).toBe('a\nb')
    expect(toText(texts)).toBe('a\nb')
  })

  test.each<[string, object]>([
    [
      'the files of a folder',
      [
        { type: 'file', name: 'a.txt' },
        { type: 'file', name: 'b.txt' },
      ],
    ],
    ['a record that says it is a picture', { type: 'image', width: 3 }],
    ['a picture of nothing', { type: 'image', image: '' }],
    ['a record that says it is a text', { type: 'text', size: 3 }],
    ['a record with a file of its own', { type: 'file', file: { name: 'a.txt' } }],
    ['an empty list', []],
  ])('%s: JSON', (_, value) => {
    expect(toWireOutput(value)).toBe(JSON.stringify(value))
  })
})
