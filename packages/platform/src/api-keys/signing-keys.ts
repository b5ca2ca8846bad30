import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import type { Database } from '../db/database.ts'
import { ensurePlatformKey, listPlatformKeys, type PlatformKey } from '../security/platform-keys.repo.ts'
import { seal, unseal } from '../security/seal.ts'
import { platformKeyPlace } from '../security/server-key.ts'

/** A key that is unknown makes this process look again, but not more often than this. */
const RELOAD_MS = 5_000

type Signer = { readonly kid: string; readonly privateKey: KeyObject }

/** The Ed25519 keys that sign API keys (`platform_keys`). The newest active one signs; retired ones are gone. */
export class SigningKeys {
  readonly #db: Database
  readonly #masterKey: Uint8Array
  readonly #verifiers = new Map<string, KeyObject>()
  #signer: Signer | undefined
  #loadedAt = -Infinity

  private constructor(db: Database, masterKey: Uint8Array) {
    this.#db = db
    this.#masterKey = masterKey
  }

  /** Reads the keys; generates the first one on an empty database. Processes that start together agree on one. */
  static async load(db: Database, masterKey: Uint8Array): Promise<SigningKeys> {
    const keys = new SigningKeys(db, masterKey)
    await keys.#reload()
    if (!keys.#signer) {
      await ensureSigningKey(db, masterKey, 'k1')
      await keys.#reload()
    }
    return keys
  }

  get signer(): Signer {
    if (!this.#signer) throw new Error('there is no active signing key')
    return this.#signer
  }

  /** The public key with that name. Only names of the local set are ever looked up. */
  async findVerifier(kid: string): Promise<KeyObject | undefined> {
    if (!this.#verifiers.has(kid) && performance.now() - this.#loadedAt > RELOAD_MS) await this.#reload()
    return this.#verifiers.get(kid)
  }

  async #reload(): Promise<void> {
    this.#loadedAt = performance.now()
    const rows = (await this.#db.run(listPlatformKeys, undefined)).filter((row) => row.alg === 'EdDSA')
    const usable = rows.filter((row) => row.status !== 'retired')
    this.#verifiers.clear()
    for (const row of usable) this.#verifiers.set(row.kid, publicKeyOf(row))
    const active = usable
      .filter((row) => row.status === 'active')
      .toSorted((a, b) => b.createdAt.getTime() - a.createdAt.getTime())[0]
    this.#signer = active && { kid: active.kid, privateKey: this.#privateKeyOf(active) }
  }

  #privateKeyOf(row: PlatformKey): KeyObject {
    if (!row.privateEnc) throw new Error(`signing key ${row.kid} has no private part`)
    const der = unseal(this.#masterKey, platformKeyPlace(row.kid), row.privateEnc)
    return createPrivateKey({ key: Buffer.from(der), format: 'der', type: 'pkcs8' })
  }
}

/** Adds a signing key unless one of that name exists. Keys signed by earlier ones stay valid. */
export async function ensureSigningKey(db: Database, masterKey: Uint8Array, kid: string): Promise<void> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  await db.run(ensurePlatformKey, {
    kid,
    alg: 'EdDSA',
    publicKey: new Uint8Array(publicKey.export({ format: 'der', type: 'spki' })),
    privateEnc: seal(masterKey, platformKeyPlace(kid), privateKey.export({ format: 'der', type: 'pkcs8' })),
  })
}

function publicKeyOf(row: PlatformKey): KeyObject {
  if (!row.publicKey) throw new Error(`signing key ${row.kid} has no public part`)
  return createPublicKey({ key: Buffer.from(row.publicKey), format: 'der', type: 'spki' })
}
