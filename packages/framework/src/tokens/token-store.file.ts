import { hash } from 'node:crypto'
import { readFile, realpath, rename, rm } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import type { StoredOAuthClientInformation, StoredOAuthTokens } from '@modelcontextprotocol/client'
import { ConfigError } from '@bureau/protocol'
import { makeFolder } from '../make-folder.ts'
import { AnyFunction, type OptionChecks, readOptions } from '../options.ts'
import { z } from 'zod'
import { lockFile } from './file-lock.ts'
import { createOnce, keyOfFolder, undefinedWhenMissing, writeTemporary } from './key-file.ts'
import { readSealKey, sealText, UnreadableFile, unsealText } from './seal-file.ts'
import type { CredentialsKey, StoredCredentials, TokenStore } from './token-store.ts'

/** Longer than the HTTP requests of one refresh may take together. */
const LOCK_TIMEOUT_MS = 120_000

export type FileTokenStoreOptions = {
  /** Made with mode 0700 when it is missing. Several processes may share it. */
  readonly directory: string
  /**
   * Keys of 32 bytes in base64 or hex, separated by commas: the first encrypts, all decrypt. Default: a key that is
   * made once and kept beside the tokens, in the file `key` with mode 0600.
   */
  readonly key?: string | undefined
  /** Called for files that cannot be opened. They count as absent: the user signs in again. */
  readonly onUnreadable?: (path: string, error: Error) => void
}

const FileTokenStoreChecks = z.strictObject({
  directory: z.string(),
  key: z.string().optional(),
  onUnreadable: AnyFunction.optional(),
} satisfies OptionChecks<FileTokenStoreOptions>)

type TokensFile = { readonly tokens: StoredOAuthTokens; readonly expiresAt?: number }

/**
 * Encrypted files: `<directory>/<user>/<server>/tokens.json` and `client.json`, mode 0600 in folders of mode 0700,
 * replaced in one step.
 */
export class FileTokenStore implements TokenStore {
  readonly #directory: string
  readonly #configuredKeys: readonly Uint8Array[] | undefined
  readonly #onUnreadable: (path: string, error: Error) => void
  #keys: Promise<readonly Uint8Array[]> | undefined

  /** @throws ConfigError an option is not valid, or `key` is not made of keys of 32 bytes. */
  constructor(options: FileTokenStoreOptions) {
    readOptions('FileTokenStore', FileTokenStoreChecks, options)
    this.#directory = resolve(options.directory)
    this.#configuredKeys = options.key === undefined ? undefined : readKeys(options.key)
    this.#onUnreadable = options.onUnreadable ?? (() => {})
  }

  async load(key: CredentialsKey): Promise<StoredCredentials> {
    const [tokens, client] = await Promise.all([
      this.#read<TokensFile>(key, 'tokens.json'),
      this.#read<StoredOAuthClientInformation>(key, 'client.json'),
    ])
    return { ...tokens, ...(client && { client }) }
  }

  async save(key: CredentialsKey, credentials: StoredCredentials): Promise<void> {
    const { client, tokens, expiresAt } = credentials
    // The client first: tokens must never stand beside a client that they were not issued to.
    await this.#write(key, 'client.json', client)
    const file = tokens && { tokens, ...(expiresAt !== undefined && { expiresAt }) }
    await this.#write(key, 'tokens.json', file)
  }

  async delete(key: CredentialsKey): Promise<void> {
    await this.save(key, {})
  }

  async exclusive<Result>(key: CredentialsKey, work: () => Promise<Result>): Promise<Result> {
    const path = join(await this.#folderOf(key), 'lock')
    await createOnce(path, '')
    const unlock = await lockFile(path, LOCK_TIMEOUT_MS)
    try {
      return await work()
    } finally {
      unlock()
    }
  }

  async #read<Content>(key: CredentialsKey, name: string): Promise<Content | undefined> {
    const path = join(this.#pathOf(key), name)
    const sealed = await readFile(path, 'utf8').catch(undefinedWhenMissing)
    if (sealed === undefined) return undefined
    try {
      return JSON.parse(unsealText(await this.#loadKeys(), placeOf(key, name), sealed)) as Content
    } catch (error) {
      if (!(error instanceof UnreadableFile)) throw error
      this.#onUnreadable(path, error)
      return undefined
    }
  }

  async #write(key: CredentialsKey, name: string, content: object | undefined): Promise<void> {
    const path = join(await this.#folderOf(key), name)
    if (content === undefined) return rm(path, { force: true })
    const keys = await this.#loadKeys()
    const temporary = await writeTemporary(path, sealText(keys[0]!, placeOf(key, name), JSON.stringify(content)))
    await rename(temporary, path)
  }

  #pathOf({ userId, server }: CredentialsKey): string {
    return join(this.#directory, userSegment(userId), serverSegment(server))
  }

  /** Makes the folder. A link planted in the way leads nowhere else: the real path must be the expected one. */
  async #folderOf(key: CredentialsKey): Promise<string> {
    const folder = this.#pathOf(key)
    makeFolder(folder)
    const [base, real] = await Promise.all([realpath(this.#directory), realpath(folder)])
    if (real !== base + folder.slice(this.#directory.length) || !real.startsWith(base + sep)) {
      throw new Error(`${folder} leads out of the token folder`)
    }
    return real
  }

  #loadKeys(): Promise<readonly Uint8Array[]> {
    this.#keys ??= this.#configuredKeys ? Promise.resolve(this.#configuredKeys) : this.#generatedKeys()
    this.#keys.catch(() => (this.#keys = undefined))
    return this.#keys
  }

  async #generatedKeys(): Promise<readonly Uint8Array[]> {
    return readKeys(await keyOfFolder(this.#directory))
  }
}

/** @throws Error the id is blank or not well-formed: two such ids could not be told apart. */
function userSegment(userId: string): string {
  if (userId.trim() === '' || !userId.isWellFormed()) throw new Error('credentials are stored for named users only')
  return safeSegment(userId)
}

function serverSegment(server: string): string {
  return /^[A-Za-z0-9_-]{1,64}$/.test(server) ? server : safeSegment(server)
}

function placeOf({ userId, server }: CredentialsKey, name: string): readonly string[] {
  return [userId, server, name]
}

function readKeys(text: string): readonly Uint8Array[] {
  return text.split(',').map((part) => {
    const key = readSealKey(part)
    if (!key) throw new ConfigError('The key of the token store must be 32 bytes, written in base64 or hex.')
    return key
  })
}

/**
 * A folder name for any text: readable where possible, always safe, different for different texts.
 *
 * Letters, digits, `_` and `-` stay, at most 40 of them; the first 16 hex digits of the text's SHA-256 follow.
 */
function safeSegment(text: string): string {
  const digest = hash('sha256', text, 'hex').slice(0, 16)
  return `${text.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 40)}-${digest}`
}
