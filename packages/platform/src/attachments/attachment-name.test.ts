import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isAttachmentName, nameFromUrl } from './attachment-name.ts'

describe('isAttachmentName', () => {
  test.each(['r.pdf', 'Übersicht 2026.csv', '漢字', '...', '.htaccess', 'a%2fb', 'x'.repeat(255)])(
    '%s is one',
    (name) => expect(isAttachmentName(name)).toBe(true),
  )

  test.each([
    '',
    '.',
    '..',
    'a/b',
    '/etc/passwd',
    'a\\b',
    'a\0b',
    'a\nb',
    'a\u202eb', // bidirectional override
    'a\u200bb', // zero width
    'a\u2028b',
    'U\u0308bersicht', // not normalised
    'a\ud800',
    'x'.repeat(256),
    'é'.repeat(128),
  ])('%j is none', (name) => expect(isAttachmentName(name)).toBe(false))
})

describe('nameFromUrl', () => {
  test.each([
    ['https://x.example/a/b/report.pdf?sig=1', 'report.pdf'],
    ['https://x.example/%C3%9Cbersicht%202026.csv', 'Übersicht 2026.csv'],
    ['https://x.example/a%2Fb%5Cc%00d.txt', 'a_b_c_d.txt'],
    ['https://x.example/%E2%80%AEfdp.exe', '_fdp.exe'],
    ['https://x.example/U%CC%88.txt', 'Ü.txt'],
    ['https://x.example/%zz.txt', '%zz.txt'],
    ['https://x.example/', 'file'],
    ['https://x.example/a/', 'file'],
    ['https://x.example/a/%2E%2E', 'file'],
    [`https://x.example/${'x'.repeat(300)}.pdf`, `${'x'.repeat(251)}.pdf`],
  ])('of %s is %s', (url, name) => expect(nameFromUrl(new URL(url))).toBe(name))

  test('is a name whatever the address', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (path) => {
        const url = new URL('https://x.example/')
        url.pathname = path
        expect(isAttachmentName(nameFromUrl(url))).toBe(true)
        url.pathname = encodeURIComponent(path.toWellFormed())
        expect(isAttachmentName(nameFromUrl(url))).toBe(true)
      }),
    )
  })
})
