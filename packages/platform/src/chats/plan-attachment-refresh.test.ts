import { describe, expect, test } from 'vitest'
import { attachmentParamsHash, attachmentUrlExpiry, attachmentUrlKey, parseAttachmentUrl } from './attachment-url.ts'
import { type EarlierAttachment } from './attachments.repo.ts'
import { planAttachmentRefresh } from './plan-attachment-refresh.ts'

const NOW = Date.parse('2026-11-20T22:00:00Z')
const HASH_KEY = new Uint8Array(32)
const url = (text: string): URL => parseAttachmentUrl(text)!

function earlier(id: string, address: string, state: EarlierAttachment['state'] = 'ok'): EarlierAttachment {
  const parsed = url(address)
  return {
    id,
    urlKey: attachmentUrlKey(parsed),
    paramsHash: Buffer.from(attachmentParamsHash(HASH_KEY, parsed)).toString('hex'),
    expiresAt: attachmentUrlExpiry(parsed) ?? null,
    state,
  }
}
const plan = (files: EarlierAttachment[], refreshes: Record<string, string> = {}): unknown => {
  try {
    return planAttachmentRefresh(files, refreshes, NOW).map(({ id, url }) => `${id} ${url.href}`)
  } catch (error) {
    return (error as { code: string }).code
  }
}

const FILE = 'https://files.example.com/r.pdf'
const amz = (date: string, seconds: number): string => `X-Amz-Date=${date}&X-Amz-Expires=${seconds}&X-Amz-Signature=abc`
const FRESH = amz('20261120T220000Z', 3600)
const STALE = amz('20261120T200000Z', 3600)

describe('planAttachmentRefresh', () => {
  test('a conversation without files needs nothing', () => {
    expect(plan([])).toEqual([])
  })

  test('a file that no later turn uses needs nothing, and may be listed', () => {
    const unused = earlier('b', `https://files.example.com/b.pdf?${STALE}`, 'excluded')
    const fresh = `https://files.example.com/b.pdf?${FRESH}`
    expect(plan([unused])).toEqual([])
    expect(plan([unused], { 'https://files.example.com/b.pdf': fresh })).toEqual([])
    const again = earlier('c', `https://files.example.com/b.pdf?${STALE}&page=2`)
    expect(plan([unused, again], { 'https://files.example.com/b.pdf': fresh })).toEqual([`c ${fresh}`])
  })

  test('an address without a recognised expiry is used until it fails', () => {
    expect(plan([earlier('a', `${FILE}?token=x`)])).toEqual([])
    expect(plan([earlier('a', `${FILE}?token=x`, 'needs_refresh')])).toBe('attachment_refresh_required')
  })

  test('an expired file must be listed; all of its uses get the fresh address', () => {
    const files = [earlier('a', `${FILE}?${STALE}`), earlier('b', `${FILE}?${FRESH}`)]
    expect(plan(files)).toBe('attachment_refresh_required')
    expect(plan(files, { [FILE]: `${FILE}?${FRESH}` })).toEqual([`a ${FILE}?${FRESH}`, `b ${FILE}?${FRESH}`])
  })

  test('one answer names every missing file', () => {
    const files = [earlier('a', `${FILE}?${STALE}`), earlier('b', `https://files.example.com/s.pdf?${STALE}`)]
    const message = 'attachmentUrlRefreshes must list: https://files.example.com/r.pdf, https://files.example.com/s.pdf'
    expect(() => planAttachmentRefresh(files, {}, NOW)).toThrow(message)
  })

  test('an address that ends within two minutes counts as expired', () => {
    expect(plan([earlier('a', `${FILE}?${amz('20261120T220000Z', 119)}`)])).toBe('attachment_refresh_required')
    expect(plan([earlier('a', `${FILE}?${amz('20261120T220000Z', 121)}`)])).toEqual([])
  })

  test('a file may be refreshed early', () => {
    expect(plan([earlier('a', `${FILE}?${FRESH}`)], { [FILE]: `${FILE}?new=1` })).toEqual([`a ${FILE}?new=1`])
  })

  test.each([
    { why: 'a key with a query', refreshes: { [`${FILE}?x=1`]: `${FILE}?y` } },
    { why: 'a key with a fragment', refreshes: { [`${FILE}#x`]: `${FILE}?y` } },
    { why: 'a key that is no https URL', refreshes: { 'http://files.example.com/r.pdf': `${FILE}?y` } },
    { why: 'a key with user information', refreshes: { 'https://u@files.example.com/r.pdf': `${FILE}?y` } },
    {
      why: 'an unknown file',
      refreshes: { 'https://files.example.com/other.pdf': 'https://files.example.com/other.pdf' },
    },
    { why: 'another host', refreshes: { [FILE]: 'https://evil.example.com/r.pdf' } },
    { why: 'another path', refreshes: { [FILE]: 'https://files.example.com/s.pdf' } },
    { why: 'another port', refreshes: { [FILE]: 'https://files.example.com:8443/r.pdf' } },
    { why: 'another scheme', refreshes: { [FILE]: 'http://files.example.com/r.pdf' } },
    { why: 'no URL at all', refreshes: { [FILE]: 'r.pdf' } },
    { why: 'a value that has expired already', refreshes: { [FILE]: `${FILE}?${STALE}` } },
    {
      why: 'the same file twice',
      refreshes: { [FILE]: `${FILE}?y`, 'https://FILES.example.com:443/r.pdf': `${FILE}?y` },
    },
  ])('refuses $why', ({ refreshes }) => {
    expect(plan([earlier('a', `${FILE}?${STALE}`)], refreshes)).toBe('invalid_attachment_refresh')
  })

  test('two different files at one path cannot be told apart', () => {
    const files = [earlier('a', `${FILE}?version=1&${STALE}`), earlier('b', `${FILE}?version=2&${STALE}`)]
    expect(plan(files, { [FILE]: `${FILE}?version=1&${FRESH}` })).toBe('attachment_refresh_ambiguous')
  })
})

describe('attachmentUrlKey', () => {
  test.each([
    ['percent triplets in lower case', 'https://a.example/x%2fy', 'https://a.example/x%2Fy'],
    ['host in upper case and default port', 'https://A.Example:443/x', 'https://a.example/x'],
    ['dot segments', 'https://a.example/x/../y', 'https://a.example/y'],
    ['query and fragment', 'https://a.example/x?y=1#z', 'https://a.example/x'],
    ['an international name', 'https://bücher.example/x', 'https://xn--bcher-kva.example/x'],
    ['another port', 'https://a.example:8443/x', 'https://a.example:8443/x'],
  ])('normalises %s', (_, address, key) => {
    expect(attachmentUrlKey(url(address))).toBe(key)
  })

  test('does not decode: an encoded slash is not a slash', () => {
    expect(attachmentUrlKey(url('https://a.example/x%2Fy'))).not.toBe(attachmentUrlKey(url('https://a.example/x/y')))
  })
})

describe('attachmentUrlExpiry', () => {
  test.each([
    ['Amazon', `X-Amz-Date=20261120T220000Z&X-Amz-Expires=60`, NOW + 60_000],
    ['Google', `X-Goog-Date=20261120T220000Z&X-Goog-Expires=60`, NOW + 60_000],
    ['CloudFront', `Expires=${NOW / 1000}&Signature=a&Key-Pair-Id=b`, NOW],
    ['Amazon, version 2', `AWSAccessKeyId=a&Expires=${NOW / 1000}&Signature=b`, NOW],
    ['Azure', 'se=2026-11-20T22%3A00%3A00Z&sig=a', NOW],
    ['nobody', 'Expires=5', undefined],
    ['nonsense', 'X-Amz-Date=tomorrow&X-Amz-Expires=60', undefined],
    ['infinity', 'X-Amz-Date=20261120T220000Z&X-Amz-Expires=1e400', undefined],
  ])('of %s', (_, query, at) => {
    expect(attachmentUrlExpiry(url(`${FILE}?${query}`))).toBe(at)
  })
})
