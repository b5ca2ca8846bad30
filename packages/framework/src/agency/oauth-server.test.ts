import { hostedMcpTool, MCPServerStreamableHttp } from '@openai/agents-core'
import { describe, expect, test } from 'vitest'
import { ConfigError } from '@bureau/protocol'
import { z } from 'zod'
import { Agency } from './agency.ts'
import { Agent } from './agent.ts'
import { tool } from './tool.ts'
import { enableHostedMcpToolOAuth } from './hosted-tool-oauth.ts'
import { MCPServerOAuth, type MCPServerOAuthOptions, settingsOf } from './oauth-server.ts'
import { oauthServersOf } from './protected-servers.ts'

const URL = 'https://notes.example/mcp'

function settings(options: Partial<MCPServerOAuthOptions> = {}, env: Record<string, string> = {}) {
  return settingsOf(new MCPServerOAuth({ url: URL, name: 'my-notes', ...options }), (name) => env[name])
}

describe('what MCPServerOAuth takes from the environment', () => {
  const env = {
    MY_NOTES_CLIENT_ID: 'env-id',
    MY_NOTES_CLIENT_SECRET: 'env-secret',
    MY_NOTES_REDIRECT_URI: 'https://own.example/auth/callback',
    OAUTH_CALLBACK_URL: 'https://all.example/auth/callback',
  }

  test('nothing given: no client, discovery decides the scopes, the local callback', () => {
    expect(settings()).toMatchObject({
      clientId: undefined,
      clientSecret: undefined,
      scopes: undefined,
      redirectUri: 'http://localhost:8000/auth/callback',
      authServerUrl: undefined,
    })
  })

  test('client id and secret under the upper-case name, with _ for -', () => {
    expect(settings({}, env)).toMatchObject({ clientId: 'env-id', clientSecret: 'env-secret' })
  })

  test('given ones win; with useEnvCredentials false the environment is not asked', () => {
    expect(settings({ clientId: 'mine' }, env)).toMatchObject({ clientId: 'mine', clientSecret: 'env-secret' })
    const { clientId, clientSecret } = settings({ useEnvCredentials: false }, env)
    expect([clientId, clientSecret]).toEqual([undefined, undefined])
  })

  test('the redirect URI: given, own variable, common variable, local default; empty ones count as absent', () => {
    expect(settings({ redirectUri: 'https://given.example/cb' }, env).redirectUri).toBe('https://given.example/cb')
    expect(settings({}, env).redirectUri).toBe('https://own.example/auth/callback')
    expect(settings({}, { ...env, MY_NOTES_REDIRECT_URI: '' }).redirectUri).toBe('https://all.example/auth/callback')
    expect(settings({}, { OAUTH_CALLBACK_URL: '' }).redirectUri).toBe('http://localhost:8000/auth/callback')
  })
})

test('the storage name is safe, says the server and differs with whatever must not share tokens', () => {
  const names = [
    settings(),
    settings({ name: 'other' }),
    settings({ url: `${URL}2` }),
    settings({ clientId: 'a' }),
    settings({ clientId: 'b' }),
    settings({ scopes: ['read'] }),
    settings({ redirectUri: 'https://given.example/cb' }),
    settings({ authServerUrl: 'https://login.example' }),
  ].map(({ storageName }) => storageName)
  expect(new Set(names).size).toBe(names.length)
  expect(names[0]).toMatch(/^my-notes-[0-9a-f]{16}$/)
})

test('the storage name holds no secret and does not change with it, nor with the order of scopes', () => {
  expect(settings({ clientId: 'a', clientSecret: 's1' }).storageName).toBe(
    settings({ clientId: 'a', clientSecret: 's2' }).storageName,
  )
  expect(settings({ scopes: ['a', 'b'] }).storageName).toBe(settings({ scopes: ['b', 'a'] }).storageName)
  expect(settings({ name: '../../etc' }).storageName).toMatch(/^[\w-]+$/)
})

test.each<[string, Partial<MCPServerOAuthOptions>, string]>([
  ['no name', { name: ' ' }, 'name is missing'],
  ['no URL', { url: 'notes' }, 'url is not a URL'],
  ['a URL of another scheme', { url: 'file:///etc/passwd' }, 'must be http or https'],
  ['a URL with credentials', { url: 'https://u:p@notes.example' }, 'must not contain credentials'],
  ['a redirect URI that is none', { redirectUri: 'callback' }, 'redirectUri is not a URL'],
  ['an authorization server that is none', { authServerUrl: 'login' }, 'authServerUrl is not a URL'],
  ['one handler', { redirectHandler: () => {} }, 'redirectHandler and callbackHandler together'],
])('ConfigError: %s', (_what, options, message) => {
  expect(() => settings(options)).toThrow(ConfigError)
  expect(() => settings(options)).toThrow(message)
})

test('ConfigError: a secret without a client id', () => {
  expect(() => settings({ clientSecret: 's' })).toThrow(ConfigError)
})

const notes = new MCPServerOAuth({ url: URL, name: 'notes' })
const hosted = (serverLabel: string) => hostedMcpTool({ serverLabel, serverUrl: URL })

describe('agents', () => {
  test('an agent knows its protected servers, declared and hosted, and leaves open ones as they are', () => {
    const open = new MCPServerStreamableHttp({ name: 'open', url: URL })
    const wrapped = enableHostedMcpToolOAuth(hosted('files'))
    const plain = hosted('public')
    const agent = new Agent({ name: 'A', mcpServers: [notes, open], tools: [wrapped, plain] })
    expect([...agent.protectedServers.keys()]).toEqual(['notes', 'files'])
    expect(agent.mcpServers).toEqual([open])
    expect(agent.tools).toEqual([wrapped, plain])
    expect(oauthServersOf(new Agency({ entryPoint: agent })).map(({ name }) => name)).toEqual(['notes', 'files'])
  })

  test('an agent of the agents SDK keeps its marked tools when it is adopted', () => {
    const entry = new Agent({ name: 'A', handoffs: [new Agent({ name: 'B', mcpServers: [notes] })] })
    expect(oauthServersOf(new Agency({ entryPoint: entry }))).toEqual([notes])
  })

  const reserved = tool({
    name: 'authenticate_mcp_server',
    description: '',
    parameters: z.object({}),
    execute: () => '',
  })
  test.each([
    ['a tool with the reserved name', () => new Agent({ name: 'A', tools: [reserved] }), 'is reserved'],
    [
      'two declared servers of one name',
      () => new Agent({ name: 'A', mcpServers: [notes, notes] }),
      'are named "notes"',
    ],
    [
      'a hosted label that a declared server has',
      () => new Agent({ name: 'A', mcpServers: [notes], tools: [enableHostedMcpToolOAuth(hosted('notes'))] }),
      'are named "notes"',
    ],
    [
      'an open server with the name of a protected one',
      () => new Agent({ name: 'A', mcpServers: [notes, new MCPServerStreamableHttp({ name: 'notes', url: URL })] }),
      'are named "notes"',
    ],
    [
      'a public hosted label that a protected one has',
      () => new Agent({ name: 'A', tools: [enableHostedMcpToolOAuth(hosted('x')), hosted('x')] }),
      'are named "x"',
    ],
  ])('ConfigError: %s', (_what, make, message) => {
    expect(make).toThrow(ConfigError)
    expect(make).toThrow(message)
  })
})

describe('enableHostedMcpToolOAuth', () => {
  test.each([
    [
      'a tool that is no hosted MCP tool',
      () => enableHostedMcpToolOAuth({ ...hosted('x'), providerData: { type: 'web_search' } }),
      'made by hostedMcpTool()',
    ],
    [
      'a tool without a URL',
      () => enableHostedMcpToolOAuth(hostedMcpTool({ serverLabel: 'drive', connectorId: 'connector_drive' })),
      'serverUrl',
    ],
    [
      'a tool with an authorization of its own',
      () => enableHostedMcpToolOAuth(hostedMcpTool({ serverLabel: 'x', serverUrl: URL, authorization: 'key' })),
      'leave the authorization',
    ],
  ])('ConfigError: %s', (_what, wrap, message) => {
    expect(wrap).toThrow(ConfigError)
    expect(wrap).toThrow(message)
  })

  test('a hosted tool that has an authorization and is not marked is no OAuth tool', () => {
    const keyed = hostedMcpTool({ serverLabel: 'x', serverUrl: URL, authorization: 'key' })
    expect(new Agent({ name: 'A', tools: [keyed] }).protectedServers.size).toBe(0)
  })

  test('the environment gives hosted servers no client', () => {
    const agent = new Agent({ name: 'A', tools: [enableHostedMcpToolOAuth(hosted('notes'))] })
    const { server } = agent.protectedServers.get('notes')!
    expect(settingsOf(server, () => 'https://from.environment')).toMatchObject({ clientId: undefined })
  })
})
