import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agency, Agent, type AgentOptions, MCPServerOAuth, type MCPServerOAuthOptions } from '@bureau/framework'
import type { ServerOptions } from '@bureau/server'
import { type RecordedRequest, text, toolCall } from '../../support/fake-provider.ts'
import {
  closeAfterTest,
  type Json,
  startTestServer,
  type TestServer,
  type TestStream,
} from '../../support/test-server.ts'
import { type IdentityProvider, startIdentityProvider } from './identity-provider.ts'
import { type PublicAddress, startPublicAddress } from './public-address.ts'
import { type ProtectedToolServer, startProtectedToolServer } from './protected-tool-server.ts'
import { asUser, testUser } from './test-user.ts'

export async function newTokenFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'bureau-oauth-'))
  closeAfterTest(() => rm(folder, { recursive: true, force: true }))
  return folder
}

export { asUser, testUser }

export type OAuthSetUp = {
  readonly idp: IdentityProvider
  readonly notes: ProtectedToolServer
  readonly address: PublicAddress
  readonly server: TestServer
  readonly tokenFolder: string
  readonly agency: Agency
  /** Begins a run of this user. */
  run(user: string, message?: string): Promise<TestStream>
}

export type SetUpOptions = Partial<ServerOptions> & {
  readonly oauth?: Partial<MCPServerOAuthOptions>
  readonly agent?: Partial<AgentOptions>
  /** Makes another agency than the one with the agent `Solo`. */
  readonly agentsOf?: (notes: MCPServerOAuth) => Agency
  readonly env?: Record<string, string>
  /** True: the provider knows the client `known`, whose secret is `its-secret`. */
  readonly knownClient?: boolean
  /** True: the provider's clients may ask for other scopes than those that they have registered for. */
  readonly anyScopes?: boolean
  /** The host by which the tool server names its provider. Default: the one by which everybody does. */
  readonly metadataHost?: string
  /** What the tool server offers. Default: `read_notes` and `write_note`. */
  readonly offered?: readonly string[]
}

/** A provider, a protected tool server `notes`, and a server with one agent that may use it. */
export async function startOAuthSetUp(options: SetUpOptions = {}): Promise<OAuthSetUp> {
  const { oauth, agent, agentsOf, knownClient, anyScopes = false, metadataHost, offered, ...serverOptions } = options
  const tokenFolder = await newTokenFolder()
  const address = await startPublicAddress()
  const redirectUri = address.callbackUrl
  const client = { client_id: 'known', client_secret: 'its-secret', redirect_uris: [redirectUri] }
  const grants = { grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] }
  const idp = await startIdentityProvider({ clients: knownClient ? [{ ...client, ...grants }] : [], anyScopes })
  const notes = await startProtectedToolServer(idp, { metadataHost, ...(offered && { tools: offered }) })
  const declared = new MCPServerOAuth({
    name: 'notes',
    url: notes.url,
    redirectUri,
    ...oauth,
  })
  const solo = new Agent({ name: 'Solo', model: 'gpt-test', mcpServers: [declared], ...agent })
  const agency = agentsOf?.(declared) ?? new Agency({ entryPoint: solo })
  const server = await startTestServer({
    agencies: { solo: agency },
    oauthUserId: testUser,
    oauthTokenPath: tokenFolder,
    egress: { allow: [idp.host] },
    ...serverOptions,
  })
  address.forwardTo(server.url)
  useNotes(server)
  return { idp, notes, address, server, tokenFolder, agency, run: runsOf(server) }
}

/** The same agency in a server of its own, as after a restart or in another process; the token files are shared. */
export async function startAnotherServer(
  { agency, idp, tokenFolder }: OAuthSetUp,
  options: Partial<ServerOptions> & { readonly env?: Record<string, string> } = {},
): Promise<Pick<OAuthSetUp, 'server' | 'run'>> {
  const server = await startTestServer({
    agencies: { solo: agency },
    oauthUserId: testUser,
    oauthTokenPath: tokenFolder,
    egress: { allow: [idp.host] },
    ...options,
  })
  useNotes(server)
  return { server, run: runsOf(server) }
}

function runsOf(server: TestServer): OAuthSetUp['run'] {
  return (user, message = 'read my notes') =>
    server.stream('/solo/get_response_stream', { message }, { headers: asUser(user) })
}

/** The model calls the tool, after a sign-in where it does not have it, and repeats what it said. */
function useNotes(server: TestServer, tool = 'read_notes'): void {
  server.provider.respond((request) => notesTurn(request, tool))
}

export function notesTurn(request: RecordedRequest, tool = 'read_notes'): ReturnType<typeof text> {
  const outputs = request.toolOutputs
  const last = outputs.at(-1)
  const isSignedIn = /^Authenticated|checked and renewed/.test(String(last?.output))
  if (request.toolNames.includes(tool) && (!last || isSignedIn)) return toolCall(tool, {})
  if (!last) return toolCall('authenticate_mcp_server', { server_name: 'notes' })
  return text(`It said: ${last.output}`)
}

/** The payloads of the OAuth frames of a stream, in order. */
export function oauthFrames(stream: TestStream): Json[] {
  return stream.frames
    .filter((frame) => frame.event?.startsWith('oauth_'))
    .map((frame) => ({ event: frame.event, ...JSON.parse(frame.data) }))
}

export function signInStatuses(stream: TestStream): string[] {
  return oauthFrames(stream).flatMap(({ status }) => status ?? [])
}

/** Reads until the user is asked to sign in, elsewhere than at `known`; answers with the payload of `oauth_redirect`. */
export async function untilRedirect(stream: TestStream, known?: string): Promise<Json> {
  const isNew = (data: string): boolean => JSON.parse(data).auth_url !== known
  return JSON.parse((await stream.until(({ event, data }) => event === 'oauth_redirect' && isNew(data))).data)
}

/** What the tools of a run answered, in order. */
export function toolOutputs(stream: TestStream): string[] {
  const outputs = stream.events.filter(({ name }) => name === 'tool_output').map(({ item }) => item.output)
  return outputs.map((output) => (typeof output === 'string' ? output : JSON.stringify(output)))
}
