import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { type ModelAccess, VENDOR_BASE_URL } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import { expect, test } from 'vitest'
import { checkVoice, readRealtimeOptions } from './realtime-options.ts'

/** What the options need of the process: where its models are, and its environment. */
function models(environment: Record<string, string> = {}, baseUrl: string = VENDOR_BASE_URL): ModelAccess {
  return { baseUrl, readKey: (name: string) => environment[name] } as ModelAccess
}

test.each([
  { options: {}, url: 'wss://api.openai.com/v1/realtime?model=gpt-realtime' },
  { options: {}, base: 'http://127.0.0.1:9/v1/', url: 'ws://127.0.0.1:9/v1/realtime?model=gpt-realtime' },
  { options: { model: 'm' }, url: 'wss://api.openai.com/v1/realtime?model=m' },
  { options: { provider: 'xai' as const }, url: 'wss://api.x.ai/v1/realtime?model=grok-voice-latest' },
  { options: { url: 'https://voice.test/rt' }, url: 'wss://voice.test/rt?model=gpt-realtime' },
  { options: { url: 'wss://voice.test/rt?model=x&a=1' }, url: 'wss://voice.test/rt?model=x&a=1' },
  {
    options: { url: 'wss://a.test', providerOptions: { url: 'wss://b.test/' } },
    url: 'wss://b.test/?model=gpt-realtime',
  },
])('$options ($base) goes to $url', ({ options, base, url }) => {
  expect(readRealtimeOptions(options, models({}, base)).url).toBe(url)
})

test.each([
  { options: {}, key: 'sk-env' },
  { options: { provider: 'xai' as const }, key: 'xai-env' },
  { options: { apiKey: 'given' }, key: 'given' },
  { options: { apiKeyEnv: 'VOICE_KEY' }, key: 'voice-env' },
  { options: { apiKey: 'given', providerOptions: { apiKey: 'deeper' } }, key: 'deeper' },
  { options: { apiKeyEnv: 'MISSING' }, key: undefined },
])('$options uses the key $key', ({ options, key }) => {
  const environment = { OPENAI_API_KEY: 'sk-env', XAI_API_KEY: 'xai-env', VOICE_KEY: 'voice-env' }
  expect(readRealtimeOptions(options, models(environment)).apiKey).toBe(key)
})

test.each([
  { options: { provider: 'other' }, message: /realtimeOptions\.provider/ },
  { options: { voice: 'nobody' }, message: /realtimeOptions\.voice: openai has no voice "nobody".*marin/ },
  { options: { provider: 'xai', voice: 'marin' }, message: /xai has no voice "marin"/ },
  { options: { url: 'ftp://x' }, message: /realtimeOptions\.url: must be a ws:/ },
  { options: { providerOptions: { url: 1 } }, message: /realtimeOptions\.providerOptions\.url/ },
  { options: { inputAudioFormat: 'mp3' }, message: /realtimeOptions\.inputAudioFormat/ },
  { options: { maxMessageBytes: 0 }, message: /realtimeOptions\.maxMessageBytes/ },
  { options: { unknown: 1 }, message: /unknown/ },
])('$options is a mistake of the operator', ({ options, message }) => {
  const read = (): unknown => readRealtimeOptions(options as never, models())
  expect(read).toThrow(ConfigError)
  expect(read).toThrow(message)
})

test('every problem is told at once', () => {
  expect(() => readRealtimeOptions({ provider: 'x', model: '' } as never, models())).toThrow(/provider.*\n.*model/)
})

test.each([
  { provider: 'openai' as const, voice: 'Marin' },
  { provider: 'openai' as const, voice: 'voice_abc123' },
  { provider: 'xai' as const, voice: 'eve' },
  { provider: 'xai' as const, voice: 'nlbqfwie' },
])('$provider has the voice $voice', ({ provider, voice }) => {
  expect(() => checkVoice(provider, voice, 'voice')).not.toThrow()
})

test('without the package for realtime sessions the error says what to install', () => {
  const missing = `import { registerHooks } from 'node:module'
    registerHooks({
      resolve(name, context, next) {
        if (name !== '@openai/agents-realtime') return next(name, context)
        throw Object.assign(new Error('not found'), { code: 'ERR_MODULE_NOT_FOUND' })
      },
    })`
  const program = `import { loadRealtimeSdk } from './load-realtime-sdk.ts'
    await loadRealtimeSdk().catch((error) => console.log(error.name, error.message))`
  const { stdout } = spawnSync(
    process.execPath,
    [
      '--conditions=@bureau/source',
      '--import',
      `data:text/javascript,${encodeURIComponent(missing)}`,
      '--input-type=module-typescript',
      '--eval',
      program,
    ],
    { cwd: path.resolve(import.meta.dirname), encoding: 'utf8' },
  )
  expect(stdout).toContain(
    'ConfigError enableRealtime: install the package for it: npm install @openai/agents-realtime',
  )
})
