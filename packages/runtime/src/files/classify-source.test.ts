import { describe, expect, test } from 'vitest'
import { AttachmentError, shown } from './attachment-error.ts'
import { classifySource, requireRemoteScheme } from './classify-source.ts'

describe('classifySource', () => {
  test.each<[string, NodeJS.Platform, 'local' | 'remote', string]>([
    ['\\\\server\\share\\a.txt', 'win32', 'local', '\\\\server\\share\\a.txt'],
    ['//server/share/a.txt', 'win32', 'local', '//server/share/a.txt'],
    ['\\\\server\\share\\a.txt', 'linux', 'remote', '\\\\server\\share\\a.txt'],
    ['//server/share/a.txt', 'linux', 'remote', '//server/share/a.txt'],
    ['file:///srv/a.txt', 'linux', 'local', '/srv/a.txt'],
    ['FILE:///srv/a.txt', 'linux', 'local', '/srv/a.txt'],
    ['file:/srv/a.txt', 'linux', 'local', '/srv/a.txt'],
    ['file://any-host/srv/a.txt', 'linux', 'local', '/srv/a.txt'],
    ['file:///srv/with%20space.txt?x#y', 'linux', 'local', '/srv/with space.txt'],
    ['file:///srv/%2e%2e/etc/passwd', 'linux', 'local', '/srv/../etc/passwd'],
    ['file:///srv/100%.txt', 'linux', 'local', '/srv/100%.txt'],
    ['file:///C:/a.txt', 'win32', 'local', 'C:/a.txt'],
    ['file:///C:/a.txt', 'linux', 'local', '/C:/a.txt'],
    ['file://', 'linux', 'local', ''],
    ['C:/a.txt', 'win32', 'local', 'C:/a.txt'],
    ['C:\\a.txt', 'linux', 'local', 'C:\\a.txt'],
    ['/srv/a.txt', 'linux', 'local', '/srv/a.txt'],
    ['\\a.txt', 'win32', 'local', '\\a.txt'],
    ['https://example.com/a.txt', 'linux', 'remote', 'https://example.com/a.txt'],
    ['ftp://example.com/a.txt', 'linux', 'remote', 'ftp://example.com/a.txt'],
    ['a.txt', 'linux', 'remote', 'a.txt'],
    ['~/a.txt', 'linux', 'remote', '~/a.txt'],
    ['%2Fetc%2Fpasswd', 'linux', 'remote', '%2Fetc%2Fpasswd'],
    ['', 'linux', 'remote', ''],
  ])('%s on %s is %s', (source, platform, place, target) => {
    const classified = classifySource(source, platform)
    expect(classified).toEqual(place === 'local' ? { place, path: target } : { place, source: target })
  })
})

describe('requireRemoteScheme', () => {
  test.each(['https://example.com', 'HTTP://example.com'])('%s passes', (source) => {
    expect(() => requireRemoteScheme(source)).not.toThrow()
  })

  test.each([
    ['ftp://example.com/a', 'unsupported_scheme', 'Unsupported URL scheme: ftp'],
    ['s3://bucket/a', 'unsupported_scheme', 'Unsupported URL scheme: s3'],
    ['data:text/plain,x', 'unsupported_scheme', 'Unsupported URL scheme: data'],
    ['a.txt', 'unsupported_scheme', 'Unsupported URL scheme: none'],
    ['\\\\server\\a', 'unsupported_scheme', 'Unsupported URL scheme: none'],
    ['//example.com/a', 'scheme_missing', 'URL scheme is required for remote file: //example.com/a'],
    ['//u:secret@example.com/a?k=secret', 'scheme_missing', 'URL scheme is required for remote file: //example.com/a'],
  ])('%s is refused', (source, problem, message) => {
    expect(() => requireRemoteScheme(source)).toThrow(expect.objectContaining({ problem, message }) as AttachmentError)
  })
})

describe('shown', () => {
  test.each([
    ['https://user:pw@example.com/a?token=x#y', 'https://example.com/a'],
    ['https:user:pw@example.com/a', 'https:example.com/a'],
    ['https://a@b@example.com/c@d', 'https://example.com/c@d'],
    ['/home/a@b/c?.txt', '/home/a@b/c?.txt'],
    ['C:/a@b', 'C:/a@b'],
    ['line\nbreak\u202Etxt', 'line\u{FFFD}break\u{FFFD}txt'],
    ['x'.repeat(300), `${'x'.repeat(200)}…`],
  ])('%j is shown as %j', (text, expected) => expect(shown(text)).toBe(expected))
})
