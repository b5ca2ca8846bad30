import { Agency, Agent, type AgentOptions, MCPServerOAuth } from '@bureau/framework'
import type { Engine, TestPlatformOptions } from '@bureau/platform/testing'
import { type IdentityProvider, startIdentityProvider } from '../../oauth/support/identity-provider.ts'
import { notesTurn } from '../../oauth/support/oauth-set-up.ts'
import { type ProtectedToolServer, startProtectedToolServer } from '../../oauth/support/protected-tool-server.ts'
import { type PublicAddress, startPublicAddress } from '../../oauth/support/public-address.ts'
import { closeAfterTest } from '../../support/test-server.ts'
import { type Served, startPlatform } from './test-platform.ts'

export type SignInPlatform = {
  readonly platform: Served
  readonly idp: IdentityProvider
  readonly notes: ProtectedToolServer
  readonly address: PublicAddress
  readonly agency: Agency
  /** Another process of the same installation, on PostgreSQL. */
  startAnother(): Promise<Served>
}

type Options = Partial<TestPlatformOptions> & { readonly agentOf?: (notes: MCPServerOAuth) => Partial<AgentOptions> }

/** A platform with the agent `Solo`, who may use the protected tool server `notes`, and an identity provider. */
export async function startSignInPlatform(engine: Engine, options: Options = {}): Promise<SignInPlatform> {
  const { agentOf, config, ...platformOptions } = options
  const idp = await startIdentityProvider()
  const notes = await startProtectedToolServer(idp)
  const address = await startPublicAddress()
  const read = (name: string): string | undefined => (name === 'OAUTH_CALLBACK_URL' ? address.callbackUrl : undefined)
  const declared = new MCPServerOAuth({ name: 'notes', url: notes.url })
  const tools = agentOf?.(declared) ?? { mcpServers: [declared] }
  const agency = new Agency({ name: 'Solo', entryPoint: new Agent({ name: 'Solo', model: 'gpt-test', ...tools }) })
  const start = async (more: Partial<TestPlatformOptions> = {}): Promise<Served> => {
    const platform = await startPlatform(engine, {
      agencies: { solo: agency },
      config: { read, allowedHosts: [idp.host], ...config },
      ...platformOptions,
      ...more,
    })
    closeAfterTest(() => platform.close())
    platform.provider.respond((request) => notesTurn(request))
    return platform
  }
  const platform = await start()
  address.forwardTo(platform.url)
  return { platform, idp, notes, address, agency, startAnother: () => start({ beside: platform.shared }) }
}
