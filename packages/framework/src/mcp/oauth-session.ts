import type { AuthProvider } from '@modelcontextprotocol/client'
import { type AttemptOptions, type Challenge, SignInAttempt } from './sign-in-attempt.ts'

/** One user's tokens at one protected server, as a connection uses them. Refreshes silently; never asks the user. */
export class OAuthSession implements AuthProvider {
  readonly #options: AttemptOptions
  #attempt: SignInAttempt | undefined
  #lastToken: string | undefined

  constructor(options: AttemptOptions) {
    this.#options = options
  }

  /** True: a request was refused and only the user can help. */
  get needsUser(): boolean {
    return this.#attempt !== undefined
  }

  /** The attempt that a refused request has prepared. Whoever takes it carries it out. */
  takeAttempt(): SignInAttempt | undefined {
    const attempt = this.#attempt
    this.#attempt = undefined
    return attempt
  }

  /** Drops the attempt of an earlier request, which the stored tokens may have overtaken; one for more scopes stays. */
  forgetRefusal(): void {
    if (!this.#attempt?.wider) this.#attempt = undefined
  }

  /** The stored token, whoever has stored it: another process may have refreshed it. */
  async token(): Promise<string | undefined> {
    const { tokens } = await this.#options.store.load(this.#options.key)
    this.#lastToken = tokens?.access_token
    return this.#lastToken
  }

  /** @throws UnauthorizedError the user must sign in; `takeAttempt` has the prepared attempt. */
  async onUnauthorized({ response }: { readonly response: Response }): Promise<void> {
    const { extractWWWAuthenticateParams, UnauthorizedError } = await import('@modelcontextprotocol/client')
    const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response)
    if (!(await this.renew({ resourceMetadataUrl, scope }, this.#lastToken))) throw new UnauthorizedError()
  }

  /**
   * Gets another token than the refused one: what somebody else has stored meanwhile, or a refreshed one.
   *
   * @returns False: the user must sign in.
   */
  async renew(challenge: Challenge, refused: string | undefined): Promise<boolean> {
    const { store, key } = this.#options
    return store.exclusive(key, async () => {
      const { tokens } = await store.load(key)
      if (tokens && tokens.access_token !== refused) return true
      return this.#begin(challenge)
    })
  }

  /** Prepares a sign-in for more scopes than the user has granted, unless the scopes are fixed. */
  async widen(requiredScope: string | undefined): Promise<void> {
    const { store, key, settings } = this.#options
    if (settings.scopes) return
    const { computeScopeUnion } = await import('@modelcontextprotocol/client')
    await store.exclusive(key, async () => {
      const { tokens } = await store.load(key)
      await this.#begin({ scope: computeScopeUnion(tokens?.scope, requiredScope), wider: true })
    })
  }

  /**
   * A token that is good for at least `validForMs`, refreshed when it is not; for servers that somebody else talks to.
   * Undefined: the user must sign in.
   */
  async freshToken(validForMs: number): Promise<string | undefined> {
    const { store, key, now } = this.#options
    const { tokens, expiresAt } = await store.load(key)
    if (tokens && (expiresAt === undefined || expiresAt > now() + validForMs)) return tokens.access_token
    return (await this.renew({}, tokens?.access_token)) ? this.token() : undefined
  }

  async #begin(challenge: Challenge): Promise<boolean> {
    const attempt = new SignInAttempt(this.#options)
    if (await attempt.begin(challenge)) return true
    this.#attempt = attempt
    return false
  }
}
