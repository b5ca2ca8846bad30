import type { FastifyRequest } from 'fastify'
import type { OAuthStateRegistry } from '@bureau/runtime'

/** What a server needs for agencies whose users sign in to protected tool servers. */
export type OAuthOptions = {
  /**
   * Authenticates a request and answers with a stable, non-secret user id, under which the user's tokens are kept. Never
   * trust an id in a header or in the body. To refuse a request, throw an error with a `statusCode`, or answer
   * with an empty string (401). Agencies with protected tool servers need it, or `authenticate`.
   */
  readonly oauthUserId?: (request: FastifyRequest) => string | Promise<string>
  /**
   * True: `/auth/callback` asks `oauthUserId` too, and answers of other users are refused. It is a plain browser
   * navigation, so `oauthUserId` must then understand the browser's session. Default false: `state` alone decides.
   */
  readonly verifyOauthCallbackUser?: boolean
  /** Sign-ins that several processes share. Default: Redis with `REDIS_URL`, else this process alone. */
  readonly oauthRegistry?: OAuthStateRegistry
  /**
   * Folder of the token files, or one for each agency by its route name. Several processes must share it. Default:
   * `BUREAU_OAUTH_TOKEN_PATH`, else `~/.bureau/mcp-tokens`.
   */
  readonly oauthTokenPath?: string | Readonly<Record<string, string>>
  /** Longest time that a user may take to sign in, in milliseconds. Default 600_000 (10 minutes). */
  readonly oauthTimeoutMs?: number
}
