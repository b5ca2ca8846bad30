import { expect, test } from 'vitest'
import { PlatformEnvironment } from '@bureau/platform'
import { ServerEnvironment } from '@bureau/server'
import { unknownSettings } from './unknown-settings.ts'

test.each([
  ['BUREAU_MODLE', 'BUREAU_MODEL'],
  ['BUREAU_TRUST_PROXY', 'BUREAU_TRUSTED_PROXIES'],
  ['BUREAU_DATA_', 'BUREAU_DATA'],
  ['BUREAU_PORT', 'PORT'],
  ['BUREAU_TOKEN', 'APP_TOKEN'],
  ['BUREAU_REDIS_URL', 'REDIS_URL'],
  ['BUREAU_MASTER_KEY', 'PLATFORM_MASTER_KEY'],
  ['PLATFORM_OPERATORKEY', 'PLATFORM_OPERATOR_KEY'],
  ['PLATFORM_DRAIN_SECS', 'PLATFORM_DRAIN_SECONDS'],
  ['PLATFORM_DATA', 'BUREAU_DATA'],
])('%s is named, and %s as what was meant; its value is not shown', (name, meant) => {
  expect(unknownSettings({ [name]: 'secret' })).toEqual([`${name}: there is no such setting. Did you mean ${meant}?`])
})

test('a name like no other is named alone', () => {
  expect(unknownSettings({ BUREAU_FAVOURITE_COLOUR: 'red' })).toEqual([
    'BUREAU_FAVOURITE_COLOUR: there is no such setting.',
  ])
})

test('every setting of both servers is known, and what others are called is not looked at', () => {
  const ofOthers = ['PORTT', 'PLATFORM_BRANCH', 'PLATFORM_RELATIONSHIPS']
  const names = [...Object.keys(ServerEnvironment.shape), ...Object.keys(PlatformEnvironment.shape), ...ofOthers]

  expect(unknownSettings(Object.fromEntries(names.map((name) => [name, 'x'])))).toEqual([])
})

test('what Kubernetes sets beside a service named bureau or platform is not taken for a mistake', () => {
  const set = {
    BUREAU_SERVICE_HOST: '10.0.0.1',
    BUREAU_SERVICE_PORT_HTTP: '80',
    BUREAU_PORT: 'tcp://10.0.0.1:80',
    BUREAU_PORT_80_TCP: 'tcp://10.0.0.1:80',
    BUREAU_PORT_80_TCP_PROTO: 'tcp',
    PLATFORM_SERVICE_HOST: '10.0.0.2',
    PLATFORM_PORT: 'tcp://10.0.0.2:80',
  }

  expect(unknownSettings(set)).toEqual([])
})
