import type { StoredOAuthClientInformation, StoredOAuthTokens } from '@modelcontextprotocol/client'

/** Whose credentials, and for which protected tool server. */
export type CredentialsKey = {
  /** The authenticated user: stable and never blank. Nobody shares a bucket. */
  readonly userId: string
  /** The server's storage name: its name plus a digest of its URL and client identity (no secrets). */
  readonly server: string
}

/** What a user holds at one protected tool server. The parts are stored whole, with the issuer that they are bound to. */
export type StoredCredentials = {
  readonly tokens?: StoredOAuthTokens
  /** When the access token ends, in milliseconds since the epoch. Absent: the provider did not say. */
  readonly expiresAt?: number
  /** A dynamically registered client. Kept when tokens go, so that the next sign-in need not register again. */
  readonly client?: StoredOAuthClientInformation
}

/** Keeps the credentials of users at protected tool servers, apart for each user and server. */
export interface TokenStore {
  /** An empty object when there is nothing, or nothing that can be read. */
  load(key: CredentialsKey): Promise<StoredCredentials>

  /** Replaces everything that is stored under the key. Readers see the old or the new tokens, never a mixture. */
  save(key: CredentialsKey, credentials: StoredCredentials): Promise<void>

  /** Removes tokens and client. Safe to repeat. */
  delete(key: CredentialsKey): Promise<void>

  /**
   * Runs `work` while nobody else, in this process or another, runs work under the same key.
   *
   * Whoever refreshes tokens does so in here, and loads them again first: refresh tokens often work once, and a second
   * use may end the whole grant. A process that dies gives its place up. Must not be nested for one key.
   */
  exclusive<Result>(key: CredentialsKey, work: () => Promise<Result>): Promise<Result>
}
