import { describe, expect, test } from 'vitest'
import { contentMatches, extensionOf, FILE_TYPES, findFileType, sniffFileType } from './file-types.ts'

const bytes = (text: string): Uint8Array => Buffer.from(text, 'latin1')

const PNG = bytes('\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\0IDAT')
const JPEG = bytes('\xff\xd8\xff\xe0\0\x10JFIF\0\x01')
const GIF = bytes('GIF89a\x01\0\x01\0')
const PDF = bytes('%PDF-1.7\n%âãÏÓ\n')

/** A ZIP archive with one stored entry, as far as its first header goes. */
function zip(entry: string, content: string): Uint8Array {
  const header = Buffer.alloc(30)
  header.write('PK\x03\x04', 'latin1')
  header.writeUInt32LE(content.length, 18)
  header.writeUInt32LE(content.length, 22)
  header.writeUInt16LE(entry.length, 26)
  return Buffer.concat([header, bytes(entry), bytes(content)])
}

describe('file types', () => {
  test('are the ones that the interface lists', () => {
    const listed =
      '.pdf .jpeg .jpg .gif .png .c .cs .cpp .csv .html .java .json .php .py .rb .css .js .sh .ts .pkl .tar .xlsx ' +
      '.xml .zip .doc .docx .md .pptx .tex .txt'
    expect([...FILE_TYPES.keys()].toSorted()).toEqual(listed.split(' ').toSorted())
  })

  test.each([
    ['.pdf', 'input_file'],
    ['.PDF', 'input_file'],
    ['.jpeg', 'input_image'],
    ['.JPG', 'input_image'],
    ['.gif', 'input_image'],
    ['.png', 'input_image'],
    ['.py', 'agent_file'],
    ['.docx', 'agent_file'],
    ['.zip', 'agent_file'],
  ])('%s becomes an %s', (extension, kind) => expect(findFileType(extension)?.kind).toBe(kind))

  test.each(['.go', '.exe', '.svg', '', '.'])('"%s" is not supported', (extension) => {
    expect(findFileType(extension)).toBeUndefined()
  })
})

describe('extensionOf', () => {
  test.each([
    ['a.PDF', '.pdf'],
    ['a.tar.gz', '.gz'],
    ['/x/y.z/file', ''],
    ['.bashrc', ''],
    ['/x/.txt', ''],
    ['a.', ''],
    ['a.p df', ''],
    ['', ''],
  ])('%s has %j', (name, expected) => expect(extensionOf(name)).toBe(expected))
})

describe('sniffFileType', () => {
  test.each([
    ['.png', PNG],
    ['.jpg', JPEG],
    ['.gif', GIF],
    ['.pdf', PDF],
    ['.zip', zip('a.txt', 'hello')],
  ])('recognises %s', async (extension, content) => {
    expect((await sniffFileType(content))?.extension).toBe(extension)
  })

  test.each(['plain text', '{"a":1}', '<html></html>', '', 'MZ\x90\0'])('does not recognise %j', async (text) => {
    expect(await sniffFileType(bytes(text))).toBeUndefined()
  })
})

describe('contentMatches', () => {
  test.each([
    ['.png', PNG, true],
    ['.png', JPEG, false],
    ['.jpeg', JPEG, true],
    ['.pdf', PDF, true],
    ['.pdf', bytes('<script>'), false],
    ['.zip', zip('a.txt', 'x'), true],
    ['.zip', bytes('no zip'), false],
    ['.docx', zip('word/document.xml', '<x/>'), true],
    ['.docx', bytes('text'), false],
    ['.txt', bytes('hello'), true],
    ['.txt', bytes('\xff\xfeh\0i\0'), true],
    ['.txt', bytes('a\0b'), false],
    ['.csv', new Uint8Array(), true],
    ['.pkl', bytes('\x80\x04\0'), true],
    ['.go', bytes('package main'), false],
  ])('%s', async (extension, content, expected) => {
    expect(await contentMatches(extension, content)).toBe(expected)
  })
})
