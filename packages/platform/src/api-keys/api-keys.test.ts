import { createHmac, generateKeyPairSync } from 'node:crypto'
import { CompactSign, SignJWT } from 'jose'
import { beforeAll, describe, expect, test } from 'vitest'
import { ENGINES } from '../db/engines.contract.ts'
import { openTestStore } from '../test-store.contract.ts'
import { codeOf, useTenant, useTestStore } from '../use-test-store.contract.ts'
import { hashToken } from './api-key-token.ts'
import { getApiKey, listApiKeys, revokeApiKey } from './api-keys.repo.ts'
import { Authenticator } from './authenticate.ts'
import { type Caller, requireScope } from '../caller.ts'
import { createApiKey, createFirstApiKey, type IssuedApiKey, rotateApiKey } from './create-api-key.ts'
import { ensureSigningKey, SigningKeys } from './signing-keys.ts'

describe.each(ENGINES)('API keys on %s', (engine) => {
  const platform = useTestStore(engine)
  const tenant = useTenant(platform)
  let first: IssuedApiKey
  beforeAll(async () => {
    first = await createFirstApiKey(platform.store.keyIssuer, tenant.ownerId, { name: 'first' })
  })

  const authenticate = (token: string, clock?: () => number): Promise<Caller> =>
    new Authenticator(platform.store.keyIssuer, clock).authenticate(`Bearer ${token}`)

  test('a key names its owner and what it may do', async () => {
    expect(await authenticate(first.token)).toEqual({
      ownerId: tenant.ownerId,
      keyId: first.id,
      scopes: ['*'],
      integrationIds: null,
      expiresAt: null,
    })
  })

  test('tokens begin alike, so that secret scanners know them', async () => {
    const other = await createFirstApiKey(platform.store.keyIssuer, tenant.ownerId, { name: 'other' })
    const prefix = Buffer.from('{"alg":"EdDSA","typ":"apikey+jwt","kid":"k1"}').toString('base64url')
    expect([first.token, other.token].map((token) => token.split('.')[0])).toEqual([prefix, prefix])
  })

  test('neither the token nor its hash is ever listed', async () => {
    const page = await platform.db.run(listApiKeys, {
      ownerId: tenant.ownerId,
      integrationIds: null,
      limit: 100,
      after: null,
    })
    const listed = page.items.find((key) => key.id === first.id)
    expect(listed).toMatchObject({ object: 'api_key', name: 'first', hint: first.token.slice(-4), scopes: ['*'] })
    expect(Object.keys(listed ?? {})).not.toContain('token')
    const [row] = await platform.rows(
      `SELECT encode(token_sha256, 'hex') AS hash FROM api_keys WHERE id = '${first.id}'`,
    )
    expect(row).toEqual({ hash: Buffer.from(hashToken(first.token)).toString('hex') })
  })

  describe('what is refused', () => {
    const { privateKey } = generateKeyPairSync('ed25519')
    const claims = () => ({ iss: 'https://test.example', aud: 'platform-api', sub: tenant.ownerId, jti: first.id })
    const header = { alg: 'EdDSA', typ: 'apikey+jwt', kid: 'k1' }
    const signed = (
      payload: object,
      protectedHeader: object = header,
      key = platform.store.keyIssuer.signingKeys.signer.privateKey,
    ) =>
      new CompactSign(Buffer.from(JSON.stringify(payload)))
        .setProtectedHeader(protectedHeader as typeof header)
        .sign(key)
    const now = () => Math.floor(Date.now() / 1000)

    test.each([
      undefined,
      '',
      'Bearer',
      'Bearer ',
      'Basic abc',
      'Bearer a.b',
      'Bearer a.b.c d',
      `Bearer ${'a'.repeat(100_000)}.b.c`,
    ])('the header %.20s', async (authorization) => {
      expect(await codeOf(platform.store.authenticator.authenticate(authorization))).toBe('invalid_api_key')
    })

    test('a token of another signer, also under our key id', async () => {
      expect(await codeOf(authenticate(await signed({ ...claims(), iat: now() }, header, privateKey)))).toBe(
        'invalid_api_key',
      )
    })

    test.each([
      ['an unknown key id', { kid: '../k1' }],
      ['a header with jku', { jku: 'https://evil.example' }],
      ['a header with crit', { crit: ['b64'], b64: true }],
      ['another type', { typ: 'JWT' }],
    ])('%s', async (_, change) => {
      expect(await codeOf(authenticate(await signed({ ...claims(), iat: now() }, { ...header, ...change })))).toBe(
        'invalid_api_key',
      )
    })

    test('a token that was signed with the public key as a secret', async () => {
      const head = Buffer.from(JSON.stringify({ ...header, alg: 'HS256' })).toString('base64url')
      const body = Buffer.from(JSON.stringify({ ...claims(), iat: now() })).toString('base64url')
      const mac = createHmac('sha256', 'public').update(`${head}.${body}`).digest('base64url')
      expect(await codeOf(authenticate(`${head}.${body}.${mac}`))).toBe('invalid_api_key')
      const none = Buffer.from(JSON.stringify({ ...header, alg: 'none' })).toString('base64url')
      expect(await codeOf(authenticate(`${none}.${body}.AA`))).toBe('invalid_api_key')
    })

    test.each([
      ['another installation', { iss: 'https://other.example' }],
      ['another audience', { aud: 'somebody' }],
      ['several audiences', { aud: ['platform-api', 'x'] }],
      ['no key id', { jti: undefined }],
      ['an owner that is none', { sub: "own_' OR 1=1" }],
      ['a time of issue in the future', { iat: 9_999_999_999 }],
      ['no time of issue', { iat: undefined }],
      ['a past expiry', { exp: 1 }],
      ['an expiry in words', { exp: '9999999999' }],
      ['a negative expiry', { exp: -1 }],
    ])('%s', async (_, change) => {
      expect(await codeOf(authenticate(await signed({ ...claims(), iat: now(), ...change })))).toBe('invalid_api_key')
    })

    test('a validly signed token with right claims that is not the token we gave out', async () => {
      expect(await codeOf(authenticate(await signed({ ...claims(), iat: now() - 5 })))).toBe('invalid_api_key')
    })

    test("another owner's key", async () => {
      const stranger = await platform.addTenant()
      const token = await new SignJWT({})
        .setProtectedHeader(header)
        .setIssuer('https://test.example')
        .setAudience('platform-api')
        .setSubject(stranger.ownerId)
        .setJti(first.id)
        .setIssuedAt()
        .sign(platform.store.keyIssuer.signingKeys.signer.privateKey)
      expect(await codeOf(authenticate(token))).toBe('invalid_api_key')
    })
  })

  test('a revoked key is refused at once where it is forgotten, and everywhere after five seconds', async () => {
    const key = await createFirstApiKey(platform.store.keyIssuer, tenant.ownerId, { name: 'short' })
    let clock = Date.now()
    const far = new Authenticator(platform.store.keyIssuer, () => clock)
    const near = new Authenticator(platform.store.keyIssuer, () => clock)
    const ask = (where: Authenticator) => codeOf(where.authenticate(`Bearer ${key.token}`))
    expect([await ask(far), await ask(near)]).toEqual(['fine', 'fine'])

    const revoke = () =>
      platform.db.run(revokeApiKey, {
        ownerId: tenant.ownerId,
        integrationIds: null,
        keyId: key.id,
        actor: first.id,
      })
    const revoked = await revoke()
    await near.forget(key.id)

    expect([await ask(far), await ask(near)]).toEqual(['fine', 'invalid_api_key'])
    clock += 5_001
    expect(await ask(far)).toBe('invalid_api_key')
    expect((await revoke()).revokedAt).toBe(revoked.revokedAt)
    const announced = await platform.rows(`SELECT payload->>'id' AS id FROM outbox WHERE topic = 'api_key.revoked'`)
    expect(announced).toEqual([{ id: key.id }])
  })

  test('a key expires', async () => {
    const expiresAt = new Date(Date.now() + 60_000)
    const key = await createApiKey(platform.store.keyIssuer, tenant.caller, { name: 'soon', expiresAt })
    expect(await codeOf(authenticate(key.token))).toBe('fine')
    expect(await codeOf(authenticate(key.token, () => Date.now() + 200_000))).toBe('invalid_api_key')
    const past = createApiKey(platform.store.keyIssuer, tenant.caller, { name: 'past', expiresAt: new Date(0) })
    expect(await codeOf(past)).toBe('invalid_request')
  })

  test('a key cannot make one that may do more than itself', async () => {
    const { keyIssuer } = platform.store
    const caller = { ...tenant.caller, scopes: ['keys', 'runs'], integrationIds: [tenant.integrationId] }
    const reach = { integrationIds: [tenant.integrationId] }
    expect(await codeOf(createApiKey(keyIssuer, caller, { name: 'x', scopes: ['runs'], ...reach }))).toBe('fine')
    expect(await codeOf(createApiKey(keyIssuer, caller, { name: 'x', scopes: ['chats:read'], ...reach }))).toBe(
      'insufficient_scope',
    )
    expect(await codeOf(createApiKey(keyIssuer, caller, { name: 'x', scopes: ['*'], ...reach }))).toBe(
      'insufficient_scope',
    )
    expect(await codeOf(createApiKey(keyIssuer, caller, { name: 'x', scopes: ['runs'] }))).toBe('insufficient_scope')
    const foreign = (await platform.addTenant()).integrationId
    const steal = createApiKey(keyIssuer, tenant.caller, { name: 'x', integrationIds: [foreign] })
    expect(await codeOf(steal)).toBe('integration_not_found')
  })

  test('scopes and integrations bound what a key may do', () => {
    const caller = { ...tenant.caller, scopes: ['runs'], integrationIds: ['int_a'] }
    expect(() => requireScope(caller, 'runs', 'int_a')).not.toThrow()
    expect(() => requireScope(caller, 'runs', 'int_b')).toThrow(expect.objectContaining({ code: 'insufficient_scope' }))
    expect(() => requireScope(caller, 'keys')).toThrow(expect.objectContaining({ code: 'insufficient_scope' }))
    expect(() => requireScope(tenant.caller, 'keys', 'int_b')).not.toThrow()
  })

  test('a rotated key works until the overlap is over', async () => {
    const old = await createApiKey(platform.store.keyIssuer, tenant.caller, { name: 'rotate', scopes: ['runs'] })
    const next = await rotateApiKey(platform.store.keyIssuer, tenant.caller, old.id, 3600)
    expect(next).toMatchObject({ name: 'rotate', scopes: ['runs'], expiresAt: null })
    expect([await codeOf(authenticate(old.token)), await codeOf(authenticate(next.token))]).toEqual(['fine', 'fine'])
    expect(await codeOf(authenticate(old.token, () => Date.now() + 3_700_000))).toBe('invalid_api_key')
    await rotateApiKey(platform.store.keyIssuer, tenant.caller, next.id, 0)
    expect(await codeOf(authenticate(next.token))).toBe('invalid_api_key')
    expect(await codeOf(rotateApiKey(platform.store.keyIssuer, tenant.caller, next.id, 0))).toBe('api_key_not_found')
  })

  test('the keys of a suspended owner are refused', async () => {
    const owner = await platform.addTenant()
    const key = await createFirstApiKey(platform.store.keyIssuer, owner.ownerId, { name: 'k' })
    await platform.rows(`UPDATE owners SET status = 'suspended' WHERE id = '${owner.ownerId}'`)
    expect(await codeOf(authenticate(key.token))).toBe('invalid_api_key')
  })

  test("another owner's key does not exist", async () => {
    const stranger = await platform.addTenant()
    const foreign = { ownerId: stranger.ownerId, integrationIds: null, keyId: first.id }
    expect(await codeOf(platform.db.run(getApiKey, foreign))).toBe('api_key_not_found')
    expect(await codeOf(platform.db.run(revokeApiKey, { ...foreign, actor: 'x' }))).toBe('api_key_not_found')
  })
})

test('a new signing key signs from then on; what the old one signed stays valid', async () => {
  const platform = await openTestStore('pglite')
  const masterKey = new Uint8Array(32)
  await platform.rows('DELETE FROM platform_keys')
  const issuer = { db: platform.db, issuer: 'https://test.example' }
  const before = { ...issuer, signingKeys: await SigningKeys.load(platform.db, masterKey) }
  const { ownerId } = await platform.addTenant()
  const old = await createFirstApiKey(before, ownerId, { name: 'old' })
  await ensureSigningKey(platform.db, masterKey, 'k2')

  const after = { ...issuer, signingKeys: await SigningKeys.load(platform.db, masterKey) }
  const next = await createFirstApiKey(after, ownerId, { name: 'new' })

  expect(Buffer.from(next.token.split('.')[0]!, 'base64url').toString()).toContain('"kid":"k2"')
  const authenticator = new Authenticator(after)
  for (const { token } of [old, next])
    expect((await authenticator.authenticate(`Bearer ${token}`)).ownerId).toBe(ownerId)
  await platform.drop()
})
