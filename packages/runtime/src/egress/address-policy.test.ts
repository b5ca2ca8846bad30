import { isIP } from 'node:net'
import { ConfigError } from '@bureau/protocol'
import { check, ipV4, ipV6, oneof, property } from 'fast-check'
import ipaddr from 'ipaddr.js'
import { describe, expect, test } from 'vitest'
import { allowsAddress, createEgressPolicy, isException, isPublicAddress } from './address-policy.ts'

describe('isPublicAddress', () => {
  test.each(['1.1.1.1', '93.184.216.34', '223.255.255.255', '2606:4700::1111', '2a00:1450:4001:80b::200e'])(
    '%s is public',
    (address) => expect(isPublicAddress(address)).toBe(true),
  )

  test.each([
    ['loopback', '127.0.0.1'],
    ['any', '0.0.0.0'],
    ['private', '10.1.2.3'],
    ['private', '172.16.0.1'],
    ['private', '172.31.255.255'],
    ['private', '192.168.1.1'],
    ['carrier-grade NAT', '100.64.0.1'],
    ['metadata service', '169.254.169.254'],
    ['6to4 relay', '192.88.99.1'],
    ['protocol assignments', '192.0.0.8'],
    ['documentation', '203.0.113.9'],
    ['benchmarking', '198.19.255.1'],
    ['multicast', '224.0.0.1'],
    ['reserved', '240.0.0.1'],
    ['broadcast', '255.255.255.255'],
    ['loopback', '::1'],
    ['any', '::'],
    ['IPv4-mapped loopback', '::ffff:127.0.0.1'],
    ['IPv4-mapped public', '::ffff:1.1.1.1'],
    ['IPv4-compatible', '::127.0.0.1'],
    ['NAT64', '64:ff9b::7f00:1'],
    ['local NAT64', '64:ff9b:1::7f00:1'],
    ['6to4', '2002:7f00:1::'],
    ['Teredo', '2001:0:1::1'],
    ['documentation', '2001:db8::1'],
    ['documentation', '3fff::1'],
    ['unique local', 'fd00:ec2::254'],
    ['link-local', 'fe80::1'],
    ['link-local with zone', 'fe80::1%eth0'],
    ['public with zone', '2606:4700::1111%eth0'],
    ['multicast', 'ff02::1'],
    ['no address', 'example.com'],
    ['short spelling', '127.1'],
    ['nothing', ''],
  ])('%s %s is not', (_kind, address) => expect(isPublicAddress(address)).toBe(false))

  // A second opinion: what we call public is nothing that the library knows to be special.
  test('agrees with the registry of ipaddr.js', () => {
    const notSpecial = /^(unicast|amt|as112|as112v6)$/
    const agrees = property(oneof(ipV4(), ipV6()), (text) => {
      return isIP(text) === 0 || !isPublicAddress(text) || notSpecial.test(ipaddr.parse(text).range())
    })
    expect(check(agrees, { numRuns: 2000 })).toMatchObject({ failed: false })
  })
})

describe('createEgressPolicy', () => {
  const peer = (host: string, port = 443): { host: string; port: number } => ({ host, port })

  test('without options allows public addresses only', () => {
    const policy = createEgressPolicy()
    expect(allowsAddress(policy, peer('example.com'), '93.184.216.34')).toBe(true)
    expect(allowsAddress(policy, peer('example.com'), '10.0.0.1')).toBe(false)
  })

  test.each([
    ['10.1.0.0/16', peer('10.1.2.3'), '10.1.2.3', true],
    ['10.1.0.0/16', peer('any.example.com'), '10.1.2.3', true],
    ['10.1.0.0/16', peer('10.2.0.1'), '10.2.0.1', false],
    ['10.1.0.0/16', peer('::1'), '::1', false],
    ['10.1.2.3/32', peer('10.1.2.3'), '10.1.2.3', true],
    ['127.0.0.1:11434', peer('127.0.0.1', 11_434), '127.0.0.1', true],
    ['127.0.0.1:11434', peer('127.0.0.1', 6379), '127.0.0.1', false],
    ['[::1]:8080', peer('::1', 8080), '::1', true],
    ['::1', peer('::1', 9999), '::1', true],
    ['::1', peer('::2'), '::2', false],
    ['fd00::/64', peer('fd00::9'), 'fd00::9', true],
    ['localhost:11434', peer('localhost', 11_434), '127.0.0.1', true],
    ['localhost:11434', peer('localhost', 5432), '127.0.0.1', false],
    ['models.internal', peer('models.internal', 80), '10.0.0.9', true],
    ['models.internal', peer('evil.models.internal', 80), '10.0.0.9', false],
    ['*.corp.example', peer('a.b.corp.example'), '10.0.0.9', true],
    ['*.corp.example', peer('corp.example'), '10.0.0.9', false],
    ['Bücher.example', peer('xn--bcher-kva.example'), '10.0.0.9', true],
  ])('allow %s: %j at %s is %s', (entry, target, address, expected) => {
    expect(allowsAddress(createEgressPolicy({ allow: [entry] }), target, address)).toBe(expected)
  })

  test('a denial wins over public addresses and over exceptions, however the address is written', () => {
    const policy = createEgressPolicy({ allow: ['10.0.0.0/8', 'db.example', '::/0'], deny: ['10.9.0.0/16', '1.1.1.1'] })
    expect(allowsAddress(policy, peer('one.example'), '1.1.1.1')).toBe(false)
    expect(allowsAddress(policy, peer('db.example'), '10.9.0.1')).toBe(false)
    expect(allowsAddress(policy, peer('db.example'), '::ffff:10.9.0.1')).toBe(false)
    expect(allowsAddress(policy, peer('db.example'), '10.8.0.1')).toBe(true)
  })

  test('tells which peers the operator named', () => {
    const policy = createEgressPolicy({ allow: ['localhost:11434', '10.0.0.0/8'] })
    expect(isException(policy, peer('localhost', 11_434))).toBe(true)
    expect(isException(policy, peer('localhost', 80))).toBe(false)
    expect(isException(policy, peer('10.0.0.1', 80))).toBe(true)
    expect(isException(policy, peer('example.com', 80))).toBe(false)
  })

  test('lists every entry that makes no sense', () => {
    const bad = [
      '',
      '10.0.0.0/33',
      '127.1',
      'a b',
      'host:0',
      'host:70000',
      '[::1',
      '10.0.0.0/8/9',
      '10.0.0.0/',
      '*',
      'http://x',
    ]
    const attempt = (): unknown => createEgressPolicy({ allow: bad, deny: ['example.com'] })
    expect(attempt).toThrow(ConfigError)
    for (const entry of [...bad, 'example.com']) expect(attempt).toThrow(`"${entry}"`)
  })
})
