import { createHash } from 'node:crypto'
import { createEgressPolicy } from '@bureau/runtime'
import { describe, expect, test } from 'vitest'
import { type AddressRules, checkAttachments, checkRefreshes, type RequestedAttachment } from './check-attachments.ts'
import { imageBytes, IMAGES, pngHeader } from './test-images.contract.ts'

const RULES: AddressRules = { policy: createEgressPolicy(), ports: [443] }

const file = (file_url: string, filename?: string): RequestedAttachment => ({ type: 'input_file', file_url, filename })
const image = (image_url: string): RequestedAttachment => ({ type: 'input_image', image_url })
const dataUrl = (bytes: Uint8Array, mime = 'image/png'): string =>
  `data:${mime};base64,${Buffer.from(bytes).toString('base64')}`

function refusalOf(...attachments: RequestedAttachment[]): { code: string; message: string } {
  try {
    checkAttachments(attachments, RULES)
  } catch (error) {
    return error as { code: string; message: string }
  }
  return expect.unreachable('the attachments were accepted')
}

const check = (attachment: RequestedAttachment, rules = RULES) => checkAttachments([attachment], rules)[0]

describe('checkAttachments', () => {
  test('keeps the parsed form of addresses, without fragment', () => {
    expect(check(file('HTTPS://Files.Example.COM.:443/a/../r.pdf?sig=A%20b#page=2', 'Report.pdf'))).toEqual({
      attachment: {
        kind: 'input_file',
        filename: 'Report.pdf',
        detail: null,
        source: { url: 'https://files.example.com/r.pdf?sig=A%20b' },
      },
      inline: null,
    })
    expect(check(image('https://files.example.com/x.png'))).toEqual({
      attachment: {
        kind: 'input_image',
        filename: null,
        detail: 'auto',
        source: { url: 'https://files.example.com/x.png' },
      },
      inline: null,
    })
  })

  test('a file without a name is called as its address says', () => {
    expect(check(file('https://files.example.com/a/My%20report.pdf?x'))?.attachment.filename).toBe('My report.pdf')
    expect(check(file('https://files.example.com/'))?.attachment.filename).toBe('file')
  })

  test('a name may be written in the way of macOS, an accent after its letter', () => {
    expect(check(file('https://files.example.com/a', 'Re\u0301sume\u0301.pdf'))?.attachment.filename).toBe('Résumé.pdf')
  })

  test.each(Object.keys(IMAGES) as (keyof typeof IMAGES)[])('takes inline images of the type %s', (mime) => {
    const bytes = imageBytes(mime)
    const checked = checkAttachments(
      [{ type: 'input_image', image_url: dataUrl(bytes, mime), detail: 'low' }],
      RULES,
    )[0]
    const sha256 = new Uint8Array(createHash('sha256').update(bytes).digest())
    expect(checked?.attachment).toEqual({
      kind: 'input_image',
      filename: null,
      detail: 'low',
      source: { sha256, mime, bytes: bytes.length },
    })
    expect(bytes.equals(checked?.inline ?? Buffer.alloc(0))).toBe(true)
  })

  test.each([
    'http://files.example.com/r.pdf',
    'ftp://files.example.com/r.pdf',
    'file:///etc/passwd',
    'gopher://files.example.com/',
    'javascript:alert(1)',
    '//files.example.com/r.pdf',
    'r.pdf',
    '',
    'data:text/html,<script>',
    'data:application/pdf;base64,JVBERi0=',
    'https://user:password@files.example.com/',
    'https://user@files.example.com/',
    'https://files.example.com:22/',
    'https://files.example.com:6379/',
    'https://localhost/',
    'https://printer/',
    'https://db.internal/',
    'https://db.internal./',
    'https://x.LOCALHOST/',
    'https://nas.local/',
    'https://router.home.arpa/',
    'https://api.default.svc/',
    'https://api.default.svc.cluster.local/',
    'https://127.0.0.1/',
    'https://2130706433/',
    'https://0x7f.1/',
    'https://0177.0.0.1/',
    'https://127.1/',
    'https://①②⑦.⓪.⓪.①/',
    'https://10.0.0.1/',
    'https://169.254.169.254/latest/meta-data',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::127.0.0.1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://[2002:7f00:1::]/',
    'https://[fe80::1]/',
    'https://[fd00:ec2::254]/',
    `https://files.example.com/${'x'.repeat(8192)}`,
  ])('refuses the address %s', (address) => {
    expect(refusalOf(file(address)).code).toBe('invalid_attachment')
    if (!address.startsWith('data:')) expect(refusalOf(image(address)).code).toBe('invalid_attachment')
  })

  test.each(['../r.pdf', 'a/b', 'C:\\r.pdf', '..', 'a\u202eb', 'a\0', '', 'é'.repeat(128)])(
    'refuses the filename %j',
    (name) => expect(refusalOf(file('https://files.example.com/r.pdf', name)).code).toBe('invalid_attachment'),
  )

  const png = IMAGES['image/png']
  test.each([
    ['SVG', `data:image/svg+xml;base64,${Buffer.from('<svg/>').toString('base64')}`],
    ['text', 'data:text/plain;base64,aGk='],
    ['no base64', 'data:image/png,abc'],
    ['other parameters', `data:image/png;charset=utf-8;base64,${png}`],
    ['nothing', 'data:image/png;base64,'],
    ['another type than declared', `data:image/jpeg;base64,${png}`],
    ['no image', `data:image/png;base64,${Buffer.from('hello world').toString('base64')}`],
    ['a space', `data:image/png;base64, ${png}`],
    ['a line break', `data:image/png;base64,${png.slice(0, 76)}\n${png.slice(76)}`],
    ['base64url', `data:image/png;base64,${png.replace('iVBO', 'iVB_')}`],
    ['percent encoding', `data:image/png;base64,${png.replaceAll('=', '%3D')}`],
    ['missing padding', `data:image/png;base64,${png.replaceAll('=', '')}`],
    ['too much padding', `data:image/png;base64,${png.replace(/==$/, '====')}`],
    ['padding within', `data:image/png;base64,${png.slice(0, 40)}==${png.slice(42)}`],
    ['stray bits in the padding', `data:image/png;base64,${png.replace(/g==$/, 'h==')}`],
    ['space before the scheme', ` data:image/png;base64,${png}`],
  ])('refuses a data URL with %s', (_what, url) => expect(refusalOf(image(url)).code).toBe('invalid_attachment'))

  test('exactly 5 MiB are taken, one byte more is too large', () => {
    const limit = 5 * 1024 * 1024
    const padded = (size: number): string => dataUrl(Buffer.concat([imageBytes('image/png'), Buffer.alloc(size)]))
    const head = imageBytes('image/png').length
    expect(check(image(padded(limit - head)))?.inline).toHaveLength(limit)
    expect(refusalOf(image(padded(limit - head + 1))).code).toBe('attachment_too_large')
    expect(refusalOf(image(padded(2 * limit))).code).toBe('attachment_too_large')
  })

  test('50 megapixels are taken, more are too large however few bytes they have', () => {
    expect(check(image(dataUrl(pngHeader(10_000, 5_000))))).toBeDefined()
    expect(refusalOf(image(dataUrl(pngHeader(10_000, 5_001)))).code).toBe('attachment_too_large')
    expect(refusalOf(image(dataUrl(pngHeader(0xffffffff, 0xffffffff)))).code).toBe('attachment_too_large')
  })

  test('all data URLs together may have 20 MiB', () => {
    const five = dataUrl(Buffer.concat([imageBytes('image/png'), Buffer.alloc(5 * 1024 * 1024 - 70)]))
    const four = [1, 2, 3, 4].map(() => image(five))
    expect(checkAttachments(four, RULES)).toHaveLength(4)
    const refusal = refusalOf(...four, image(dataUrl(imageBytes('image/png'))))
    expect(refusal).toMatchObject({
      code: 'attachment_too_large',
      message: expect.stringContaining('20 MiB') as string,
    })
  })

  test('at most five', () => {
    const one = file('https://files.example.com/r.pdf')
    expect(checkAttachments([one, one, one, one, one], RULES)).toHaveLength(5)
    expect(refusalOf(one, one, one, one, one, one).code).toBe('invalid_request')
  })

  test('says which one, and repeats no credentials', () => {
    const good = file('https://files.example.com/r.pdf')
    const { message } = refusalOf(good, file('https://user:hunter2@files.example.com/?sig=secret'))
    expect(message).toMatch(/^attachments\[1\]\.file_url is not a public HTTPS address: /)
    expect(message).not.toMatch(/hunter2|secret/)
    expect(refusalOf(good, image('data:image/png;base64,x')).message).toMatch(
      /^attachments\[1\]\.image_url is not valid/,
    )
  })

  test('the operator can allow peers of his own, whatever their port', () => {
    const rules = { policy: createEgressPolicy({ allow: ['127.0.0.1:8443', 'files.internal'] }), ports: [443] }
    expect(check(file('https://127.0.0.1:8443/a.txt'), rules)).toBeDefined()
    expect(check(file('https://files.internal:9000/a.txt'), rules)).toBeDefined()
    expect(() => check(file('https://127.0.0.1:8444/a.txt'), rules)).toThrow('not a public')
    expect(() => check(file('http://127.0.0.1:8443/a.txt'), rules)).toThrow('not a public')
  })
})

describe('checkRefreshes', () => {
  test('fresh addresses follow the rules of the first ones', () => {
    const key = 'https://files.example.com/r.pdf'
    expect(() => checkRefreshes({ [key]: `${key}?sig=new` }, RULES)).not.toThrow()
    for (const url of ['http://files.example.com/r.pdf', 'https://127.0.0.1/', key.replace('.com', '.com:22')]) {
      expect(() => checkRefreshes({ [key]: url }, RULES)).toThrow(
        expect.objectContaining({ code: 'invalid_attachment_refresh' }),
      )
    }
  })
})
