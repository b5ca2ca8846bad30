/** The parts of oidc-provider that the tests use; the package has no types of its own. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http'

  type Stored = {
    readonly accountId?: string
    readonly clientId?: string
    readonly scope?: string
    readonly aud?: string | string[]
    readonly exp?: number
    readonly iat?: number
  }

  export class Provider {
    constructor(issuer: string, configuration: object)
    callback(): RequestListener
    on(event: string, listener: (context: never) => void): this
    readonly AccessToken: { find(token: string): Promise<Stored | undefined> }
  }
}
