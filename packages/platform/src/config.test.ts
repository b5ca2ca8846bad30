import { describe, expect, test } from 'vitest'
import { loadPlatformConfig } from './config.ts'

const PRODUCTION = { NODE_ENV: 'production', PUBLIC_BASE_URL: 'https://api.example.com/' }
const MASTER_KEY = 'ab'.repeat(32)

function problemsOf(environment: Record<string, string>): string {
  try {
    loadPlatformConfig(environment)
    return ''
  } catch (error) {
    expect((error as Error).name).toBe('ConfigError')
    return (error as Error).message
  }
}

describe('loadPlatformConfig', () => {
  test('one machine needs nothing to be set; empty values count as absent', () => {
    const config = loadPlatformConfig({ DATABASE_URL: '', REDIS_URL: '', PUBLIC_BASE_URL: '' })

    expect(config).toMatchObject({
      dataFolder: '.bureau',
      databaseUrl: 'pglite:.bureau',
      redisUrl: undefined,
      publicBaseUrl: undefined,
      corsOrigins: [],
      maxActiveRuns: 300,
      rates: { perMinute: 30_000, burst: 2_000 },
    })
  })

  test('streams are where the API is unless they have an address of their own', () => {
    expect(loadPlatformConfig(PRODUCTION)).toMatchObject({
      publicBaseUrl: 'https://api.example.com',
      publicStreamUrl: 'https://api.example.com',
    })
  })

  test('every problem is told at once, with what to set', () => {
    const problems = problemsOf({
      NODE_ENV: 'production',
      DATABASE_URL: 'postgres://db/x',
      BUREAU_ALLOWED_HOSTS: '0.0.0.0/0',
    })

    expect(problems).toContain('PUBLIC_BASE_URL: set the https:// address')
    expect(problems).toContain('PLATFORM_MASTER_KEY: set 32 bytes')
    expect(problems).toContain('BUREAU_ALLOWED_HOSTS: name single hosts')
  })

  test.each([
    [{ PUBLIC_BASE_URL: 'api.example.com' }, 'PUBLIC_BASE_URL'],
    [{ ...PRODUCTION, PUBLIC_BASE_URL: 'http://api.example.com' }, 'PUBLIC_BASE_URL'],
    [{ ...PRODUCTION, PUBLIC_STREAM_URL: 'http://stream.example.com' }, 'PUBLIC_STREAM_URL'],
    [{ PLATFORM_CORS_ORIGINS: '*' }, 'PLATFORM_CORS_ORIGINS'],
    [{ PLATFORM_CORS_ORIGINS: 'https://app.example.com/path' }, 'PLATFORM_CORS_ORIGINS'],
    [{ PLATFORM_MASTER_KEY: 'short' }, 'PLATFORM_MASTER_KEY: the master key must be 32 bytes'],
    [{ PLATFORM_NEW_MASTER_KEY: 'short' }, 'PLATFORM_NEW_MASTER_KEY: the master key must be 32 bytes'],
    [{ DATABASE_URL: 'mysql://db' }, 'DATABASE_URL: must be an address like postgres://'],
    [{ DATABASE_URL: 'postgres://' }, 'DATABASE_URL: must be an address like postgres://'],
    [{ DATABASE_URL: 'postgres://u:p#w@db/x' }, ', with # / ? @ of a password as %23 %2F %3F %40.'],
    [{ DATABASE_URL: 'postgres://db:99999/x' }, 'DATABASE_URL: must be an address like postgres://'],
    [{ DATABASE_DIRECT_URL: 'postgres:///x' }, 'DATABASE_DIRECT_URL: must be an address like postgres://'],
    [{ REDIS_URL: 'http://cache' }, 'REDIS_URL: must be an address like redis://127.0.0.1:6379.'],
    [{ REDIS_URL: 'redis:///2' }, 'REDIS_URL: must be an address like redis://127.0.0.1:6379.'],
    [{ OAUTH_CALLBACK_URL: 'https:///auth/callback' }, 'OAUTH_CALLBACK_URL: must be an address like https://'],
    [{ PUBLIC_STREAM_URL: 'https://user:secret@stream' }, 'PUBLIC_STREAM_URL: must be an address like https://'],
    [{ BUREAU_ALLOWED_HOSTS: '10.0.0.0/8, ***' }, 'BUREAU_ALLOWED_HOSTS: "***" is no host'],
    [{ FILES_URL: 'https://bucket' }, 'FILES_URL: begins with s3://'],
    [
      { FILES_URL: 's3://key:secret@bucket' },
      'FILES_URL: is s3://bucket/prefix. Credentials belong in AWS_ACCESS_KEY_ID',
    ],
    [{ FILES_URL: 's3://Bucket' }, 'FILES_URL: the name of the bucket has'],
    [{ FILES_URL: 's3://bucket/a//b' }, 'FILES_URL: the prefix has'],
    [{ FILES_URL: 's3://bucket?endpoint=ftp://x' }, 'FILES_URL: endpoint is an http:// or https:// address'],
    [{ FILES_URL: 's3://bucket?endpoint=x' }, 'FILES_URL: endpoint is an http:// or https:// address'],
    [{ FILES_URL: 's3://bucket?endpoint=https://x/path' }, 'FILES_URL: endpoint has no path'],
    [{ FILES_URL: 's3://bucket?style=path' }, 'FILES_URL: "style" does not exist here'],
    [{ PLATFORM_REQUESTS_PER_MINUTE: 'many' }, 'PLATFORM_REQUESTS_PER_MINUTE'],
    [{ PLATFORM_MASTER_KEY: 'short', BUREAU_CONSOLE: 'maybe' }, 'BUREAU_CONSOLE: must be true or false.'],
    [{ PLATFORM_ATTACHMENT_PORTS: '443,https' }, 'PLATFORM_ATTACHMENT_PORTS'],
  ])('%j is refused', (environment, named) => {
    expect(problemsOf(environment)).toContain(named)
  })

  test('one line for each variable says what it must be, and shows no value that may be a secret', () => {
    const environment = {
      LOG_LEVEL: 'loud',
      PLATFORM_MAX_LAG_MS: 'fast',
      PLATFORM_MAX_ACTIVE_RUNS: '0',
      PLATFORM_OPERATOR_KEY: 'too-short',
      PLATFORM_ID: 'a b',
      REDIS_URL: 'http://user:secret@cache',
    }

    expect(problemsOf(environment).split('\n').toSorted()).toEqual([
      'LOG_LEVEL: must be one of fatal, error, warn, info, debug, trace, silent, not "loud".',
      'PLATFORM_ID: must be 1 to 64 characters of A-Z a-z 0-9 . _ -.',
      'PLATFORM_MAX_ACTIVE_RUNS: must be a whole number from 1 to 100000, not "0".',
      'PLATFORM_MAX_LAG_MS: must be a whole number from 0 to 60000, not "fast".',
      'PLATFORM_OPERATOR_KEY: must have at least 32 characters.',
      'REDIS_URL: must be an address like redis://127.0.0.1:6379.',
    ])
  })

  test('mistakes of every kind are listed at once, and each variable that is wrong by itself once', () => {
    const problems = problemsOf({
      NODE_ENV: 'production',
      LOG_LEVEL: 'loud',
      PLATFORM_CORS_ORIGINS: '*',
      PLATFORM_ATTACHMENT_PORTS: '443,https',
      FILES_URL: 'https://bucket',
      PLATFORM_MASTER_KEY: 'short',
      PLATFORM_NEW_MASTER_KEY: 'short',
      PUBLIC_STREAM_URL: 'nowhere',
    })

    expect(Array.from(problems.matchAll(/^[A-Z_]+/gm), String).toSorted()).toEqual([
      'FILES_URL',
      'LOG_LEVEL',
      'PLATFORM_ATTACHMENT_PORTS',
      'PLATFORM_CORS_ORIGINS',
      'PLATFORM_MASTER_KEY',
      'PLATFORM_NEW_MASTER_KEY',
      'PUBLIC_BASE_URL',
      'PUBLIC_STREAM_URL',
    ])
  })

  test.each(['postgresql://u:p@[::1]:5432/x?pgbouncer=true', 'postgres:///x?host=/var/run/postgresql', 'pglite:data'])(
    'the database may be at %s',
    (DATABASE_URL) => {
      expect(loadPlatformConfig({ DATABASE_URL }).databaseUrl).toBe(DATABASE_URL)
    },
  )

  test('production with PostgreSQL and a key of its own is fine', () => {
    const config = loadPlatformConfig({
      ...PRODUCTION,
      DATABASE_URL: 'postgres://db/x',
      PLATFORM_MASTER_KEY: MASTER_KEY,
    })

    expect(config.masterKey).toEqual(new Uint8Array(32).fill(0xab))
    expect(config.maxActiveRuns).toBe(500)
  })
})
