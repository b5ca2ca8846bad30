import { describe, expect, test } from 'vitest'
import { createEgressPolicy } from './address-policy.ts'
import { checkUrl, type UrlRules } from './check-url.ts'
import type { EgressError } from './egress-error.ts'

const HTTPS: UrlRules = { policy: createEgressPolicy(), schemes: ['https'], ports: [443] }

function reasonOf(url: string, rules: UrlRules = HTTPS): string {
  try {
    return checkUrl(url, rules).href
  } catch (error) {
    return (error as EgressError).reason
  }
}

describe('checkUrl', () => {
  test.each([
    ['https://example.com/a/../b?x=1#top', 'https://example.com/b?x=1'],
    ['  https://EXAMPLE.com.:443/a ', 'https://example.com/a'],
    ['https://bücher.example/', 'https://xn--bcher-kva.example/'],
    ['https://1.1.1.1/', 'https://1.1.1.1/'],
    ['https://[2606:4700::1111]/', 'https://[2606:4700::1111]/'],
  ])('%s becomes %s', (url, expected) => expect(reasonOf(url)).toBe(expected))

  test.each([
    'https://2130706433/',
    'https://0x7f000001/',
    'https://0x7f.1/',
    'https://0177.0.0.1/',
    'https://127.1/',
    'https://①②⑦.⓪.⓪.①/',
    'https://127.0.0.1./',
    'https://[::1]/',
    'https://[::]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::127.0.0.1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://[2002:7f00:1::]/',
    'https://[fe80::1]/',
    'https://[fd00:ec2::254]/',
    'https://169.254.169.254/latest/meta-data/',
    'https://10.0.0.1/',
    'https://localhost/',
    'https://LOCALHOST./',
    'https://a.localhost/',
    'https://printer.local/',
    'https://metadata.google.internal/',
    'https://nas.home.arpa/',
    'https://api.default.svc/',
    'https://api.default.svc.cluster.local/',
    'https://intranet/',
    'https://user:secret@example.com/',
    'https://user@example.com/',
    'https://:secret@example.com/',
    'https://example.com:22/',
    'https://example.com:6379/',
  ])('%s is blocked', (url) => expect(reasonOf(url)).toBe('blocked'))

  test.each(['http', 'ftp', 'file', 'gopher', 'javascript', 'ws'])('scheme %s is not supported', (scheme) => {
    expect(reasonOf(`${scheme}://example.com/`)).toBe('unsupported_scheme')
  })

  test.each([
    '',
    'example.com/a',
    '//example.com/a',
    '/etc/passwd',
    'https://',
    'https://exa mple.com',
    'https://[::1',
  ])('"%s" is no URL', (url) => expect(reasonOf(url)).toBe('invalid_url'))

  test('a URL of more than 8 KiB is refused', () => {
    expect(reasonOf(`https://example.com/${'a'.repeat(8192)}`)).toBe('invalid_url')
  })

  test('names the scheme, and never the credentials', () => {
    expect(() => checkUrl('data:text/html,x', HTTPS)).toThrow('Unsupported URL scheme: data')
    expect(() => checkUrl('https://u:hunter2@example.com/', HTTPS)).not.toThrow('hunter2')
  })

  test('http and any port pass where the caller of the check says so', () => {
    const rules: UrlRules = { policy: createEgressPolicy(), schemes: ['http', 'https'] }
    expect(reasonOf('http://example.com:8080/', rules)).toBe('http://example.com:8080/')
  })

  test('what the operator allows is exempt from the rules on names and ports', () => {
    const policy = createEgressPolicy({ allow: ['localhost:11434', '10.0.0.0/8', 'models', 'plain:80'] })
    const rules: UrlRules = { policy, schemes: ['http'], ports: [80] }
    expect(reasonOf('http://localhost:11434/v1', rules)).toBe('http://localhost:11434/v1')
    expect(reasonOf('http://10.0.0.1:9000/', rules)).toBe('http://10.0.0.1:9000/')
    expect(reasonOf('http://models:1/', rules)).toBe('http://models:1/')
    expect(reasonOf('http://plain/', rules)).toBe('http://plain/')
    expect(reasonOf('http://plain:443/', rules)).toBe('blocked')
    expect(reasonOf('http://localhost:6379/', rules)).toBe('blocked')
    expect(reasonOf('http://127.0.0.1:11434/', rules)).toBe('blocked')
  })
})
