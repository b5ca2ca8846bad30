import { expect, test } from 'vitest'
import { Agency, Agent } from '@bureau/framework'
import { loadConfig } from '@bureau/server'
import { announce, readyRecord } from './first-screen.ts'
import type { Terminal } from './terminal.ts'

test.each([
  [{}, 'the built-in demo model (OPENAI_API_KEY brings a real one)'],
  [{ BUREAU_MODEL: 'gpt-5' }, 'gpt-5 at https://api.openai.com/v1 (OPENAI_API_KEY is not set)'],
  [{ OPENAI_BASE_URL: 'http://127.0.0.1:11434/v1' }, 'gpt-5-mini at http://127.0.0.1:11434/v1'],
  [
    { BUREAU_MODEL: 'thirdparty/anthropic/claude-x', OPENAI_BASE_URL: 'http://127.0.0.1:11434/v1' },
    'thirdparty/anthropic/claude-x at https://api.anthropic.com/v1 (ANTHROPIC_API_KEY is not set)',
  ],
  [
    { BUREAU_MODEL: 'thirdparty/mistral/m', MISTRAL_API_KEY: 'k', MISTRAL_BASE_URL: 'https://gateway/v1' },
    'thirdparty/mistral/m at https://gateway/v1',
  ],
  [
    { BUREAU_MODEL: 'thirdparty/openai_compatible/m' },
    'thirdparty/openai_compatible/m (OPENAI_COMPATIBLE_BASE_URL is not set)',
  ],
])('with %j, what is ready names the default model and where it is asked', (environment, model) => {
  const config = loadConfig(environment)

  expect(readyRecord({ url: 'http://127.0.0.1:8000', config, module: {} })).toMatchObject({ model })
})

test.each([
  [[], `-d '{"message":"What is the weather in Paris?"}'`],
  [["Where's my order?", 'Hello'], `-d '{"message":"Where'\\''s my order?"}'`],
])('the command to try begins as the agency suggests: %j', (conversationStarters, sent) => {
  const printed: string[] = []
  const terminal: Terminal = {
    format: 'pretty',
    isPerson: true,
    log: { write: () => {} },
    print: (text) => void printed.push(text),
    waitFor: () => () => {},
  }
  const shop = new Agency({ entryPoint: new Agent({ name: 'Desk', conversationStarters }) })
  const served = { url: 'http://127.0.0.1:8000', config: loadConfig({}), module: { agencies: { shop } } }

  announce(terminal, { log: { info: () => {} } }, served)

  expect(printed.join('')).toContain(sent)
})
