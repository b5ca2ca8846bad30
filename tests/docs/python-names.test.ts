import { readFileSync } from 'node:fs'
import path from 'node:path'
import type * as framework from '@bureau/framework'
import type {
  AgencyOptions,
  AgentOptions,
  AskOptions,
  MCPServerOAuthOptions,
  ModelSettings,
  Tool,
} from '@bureau/framework'
import type { IntegrationCreate } from '@bureau/protocol'
import type * as server from '@bureau/server'
import type { RealtimeOptions, RealtimeProviderOptions, ServerOptions } from '@bureau/server'
import { ServerEnvironment } from '@bureau/server'
import { expect, test } from 'vitest'
import type { z } from 'zod'
import { ROOT } from './page.ts'

/** By where they are given here. The compiler checks that each of our names is one of an exported type. */
const NAMES = {
  '`runServer`': {
    server_url: 'serverUrl',
    app_token_env: 'appTokenEnv',
    cors_origins: 'corsOrigins',
    enable_agui: 'enableAgui',
    enable_logging: 'enableLogging',
    logs_dir: 'logsDir',
    allowed_local_file_dirs: 'allowedLocalFileDirs',
    enable_realtime: 'enableRealtime',
    realtime_options: 'realtimeOptions',
    oauth_user_id_dependency: 'oauthUserId',
    verify_oauth_callback_user: 'verifyOauthCallbackUser',
    oauth_registry: 'oauthRegistry',
    oauth_token_path: 'oauthTokenPath',
  } satisfies Record<string, keyof ServerOptions>,
  '`realtimeOptions`': {
    provider_options: 'providerOptions',
    api_key: 'apiKey',
    api_key_env: 'apiKeyEnv',
    input_audio_format: 'inputAudioFormat',
    output_audio_format: 'outputAudioFormat',
    turn_detection: 'turnDetection',
    input_audio_noise_reduction: 'inputAudioNoiseReduction',
  } satisfies Record<string, keyof RealtimeOptions | keyof RealtimeProviderOptions>,
  '`MCPServerOAuth`': {
    client_id: 'clientId',
    client_secret: 'clientSecret',
    use_env_credentials: 'useEnvCredentials',
    redirect_uri: 'redirectUri',
    cache_dir: 'cacheDir',
    storage_factory: 'storageFactory',
    client_metadata: 'clientMetadata',
    auth_server_url: 'authServerUrl',
    redirect_handler: 'redirectHandler',
    callback_handler: 'callbackHandler',
  } satisfies Record<string, keyof MCPServerOAuthOptions>,
  '`Agent`': {
    include_usage: 'includeUsage',
    validation_attempts: 'validationAttempts',
  } satisfies Record<string, keyof AgentOptions>,
  'a function of `@bureau/server`': {
    run_server: 'runServer',
    return_app: 'createApp',
    'ToolFactory.get_openapi_schema': 'toolsOpenApi',
  } satisfies Record<string, keyof typeof server>,
  'a function of `@bureau/framework`': {
    enable_hosted_mcp_tool_oauth: 'enableHostedMcpToolOAuth',
  } satisfies Record<string, keyof typeof framework>,
  'the environment': {
    AGENCY_SWARM_MCP_CACHE_DIR: 'BUREAU_OAUTH_TOKEN_PATH',
  } satisfies Record<string, keyof typeof ServerEnvironment.shape>,
} as const

/** What both call alike, and what has no counterpart. */
const OTHERS = [
  'agencies' satisfies keyof ServerOptions,
  'tools' satisfies keyof ServerOptions,
  'host' satisfies keyof ServerOptions,
  'port' satisfies keyof ServerOptions,
  'provider' satisfies keyof RealtimeOptions,
  'model' satisfies keyof RealtimeOptions,
  'voice' satisfies keyof RealtimeOptions,
  'headers' satisfies keyof RealtimeOptions,
  'url' satisfies keyof MCPServerOAuthOptions,
  'name' satisfies keyof MCPServerOAuthOptions,
  'scopes' satisfies keyof MCPServerOAuthOptions,
  'storage' satisfies keyof MCPServerOAuthOptions,
  'MCPServerOAuth' satisfies keyof typeof framework,
  'APP_TOKEN',
  'OAUTH_CALLBACK_URL',
  '<NAME>_REDIRECT_URI',
  '<NAME>_CLIENT_ID',
  '<NAME>_CLIENT_SECRET',
  'OPENAI_API_KEY' satisfies keyof typeof ServerEnvironment.shape,
  'XAI_API_KEY',
  'load_threads_callback',
  'run_realtime',
  'textOnlyMode' satisfies keyof z.input<typeof IntegrationCreate>,
  'memberAllowancesEnabled' satisfies keyof z.input<typeof IntegrationCreate>,
  'defaultAgent' satisfies keyof z.input<typeof IntegrationCreate>,
] as const

/** What authors of agencies write, by where it is given here. */
const AUTHORS = {
  '`Agency`': {
    '*entry_point_agents': 'entryPoint',
    communication_flows: 'flows',
    shared_instructions: 'sharedInstructions',
    user_context: 'userContext',
  } satisfies Record<string, keyof AgencyOptions>,
  '`Agent`': {
    model_settings: 'modelSettings',
    mcp_servers: 'mcpServers',
    mcp_config: 'mcpConfig',
    input_guardrails: 'inputGuardrails',
    output_guardrails: 'outputGuardrails',
    output_type: 'outputType',
    tool_use_behavior: 'toolUseBehavior',
    reset_tool_choice: 'resetToolChoice',
    handoff_description: 'handoffDescription',
    handoff_reminder: 'handoffReminder',
    validation_attempts: 'validationAttempts',
    raise_input_guardrail_error: 'raiseInputGuardrailError',
    conversation_starters: 'conversationStarters',
    quick_replies: 'quickReplies',
  } satisfies Record<string, keyof AgentOptions>,
  '`ModelSettings`': {
    max_tokens: 'maxTokens',
    top_p: 'topP',
    frequency_penalty: 'frequencyPenalty',
    presence_penalty: 'presencePenalty',
    tool_choice: 'toolChoice',
    parallel_tool_calls: 'parallelToolCalls',
    prompt_cache_retention: 'promptCacheRetention',
  } satisfies Record<string, keyof ModelSettings>,
  '`Tool`': { one_call_at_a_time: 'oneAtATime' } satisfies Record<string, keyof Tool>,
  '`ask`': {
    recipient_agent: 'agent',
    context_override: 'userContext',
    additional_instructions: 'additionalInstructions',
  } satisfies Record<string, keyof AskOptions>,
  'a class of `@bureau/framework`': { BaseTool: 'Tool' } satisfies Record<string, keyof typeof framework>,
  'a function of `@bureau/framework`': {
    function_tool: 'tool',
    SendMessage: 'messageTool',
    get_response: 'ask',
    get_response_stream: 'askStreamed',
  } satisfies Record<string, keyof typeof framework>,
} as const

type Names = Readonly<Record<string, Readonly<Record<string, string>>>>

const rowsOf = (text: string): string[][] =>
  [...text.matchAll(/^\| `([^`]+)` \| `([^`]+)` \| (.+) \|$/gm)].map((match) => match.slice(1))

const wantedRows = (names: Names): string[][] =>
  Object.entries(names).flatMap(([where, pairs]) => Object.entries(pairs).map((pair) => [...pair, where]))

const section = /^## Names of options\n([^]*?)^## /m.exec(readFileSync(path.join(ROOT, 'docs/clients.md'), 'utf8'))![1]!

test('every option of the Python system is in the table of clients.md, beside the one that it is here', () => {
  expect(rowsOf(section)).toEqual(wantedRows(NAMES))
})

test('names that are alike, and those without a counterpart, are in its text', () => {
  const text = section.replaceAll(/^\|.*$/gm, '')

  expect(OTHERS.filter((name) => !text.includes(`\`${name}\``))).toEqual([])
})

test('every option of an author is in the table of coming-from.md, beside the one that it is here', () => {
  expect(rowsOf(readFileSync(path.join(ROOT, 'docs/coming-from.md'), 'utf8'))).toEqual(wantedRows(AUTHORS))
})
