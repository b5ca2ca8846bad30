import { Agency, Agent } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import {
  type FakeProvider,
  type FakeProviderOptions,
  startFakeProvider,
  text,
  toolCall,
} from '../support/fake-provider.ts'
import { closeAfterTest, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

/** Where a caller sends its requests: another provider than the operator's. */
async function callersProvider(options?: FakeProviderOptions): Promise<FakeProvider> {
  const provider = await startFakeProvider(options)
  closeAfterTest(() => provider.close())
  provider.respond((request) => text(`from the caller's provider: ${request.model}`))
  return provider
}

const LOOPBACK = { egress: { allow: ['127.0.0.1'] } }
const BOTH = ['/solo/get_response', '/solo/get_response_stream'] as const

function ask(server: TestServer, client_config: unknown, more: object = {}) {
  return server.post('/solo/get_response', { message: 'hi', client_config, ...more })
}

describe('where a request goes and with which key', () => {
  test('base_url and api_key of the request are used, for every agent of the agency', async () => {
    const helper = new Agent({ name: 'Helper', instructions: 'Help.', model: 'gpt-helper' })
    const lead = new Agent({ name: 'Lead', instructions: 'Lead.', model: 'openai/gpt-lead' })
    const agency = new Agency({ entryPoint: lead, flows: [[lead, helper]] })
    const server = await startTestServer({ agencies: { solo: agency }, ...LOOPBACK })
    const theirs = await callersProvider()
    theirs.respond(({ model, toolOutputs }) => {
      if (model === 'gpt-helper') return text('helped')
      const message = { recipient_agent: 'Helper', message: 'help', additional_instructions: '' }
      return toolOutputs.length > 0 ? text('done') : toolCall('send_message', message)
    })

    const { status, body } = await ask(server, { base_url: theirs.baseUrl, api_key: 'sk-caller' })

    expect([status, body.response]).toEqual([200, 'done'])
    expect(theirs.requests.map(({ model, apiKey }) => [model, apiKey])).toEqual([
      ['gpt-lead', 'sk-caller'],
      ['gpt-helper', 'sk-caller'],
      ['gpt-lead', 'sk-caller'],
    ])
    expect(server.provider.requests).toEqual([])
  })

  test.each(['?api-version=1', '/?api-version=1', '///?api-version=1'])(
    'a query of base_url stays: %s',
    async (end) => {
      const server = await startTestServer({ agencies: soloAgency(), ...LOOPBACK })
      const theirs = await callersProvider()
      const { id } = theirs.files.add({ filename: 'a.pdf', content: '%PDF-1.4' })

      await ask(server, { base_url: theirs.baseUrl + end, api_key: 'sk-caller' }, { file_ids: [id] })

      expect(theirs.requests.map(({ path, query }) => [path, query])).toEqual([
        [`/v1/files/${id}`, 'api-version=1'],
        ['/v1/responses', 'api-version=1'],
      ])
    },
  )

  test('api_key alone keeps the address of the operator; the next request has the operator’s key again', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('ok'))

    await ask(server, { api_key: 'sk-caller' })
    await ask(server, null)

    expect(server.provider.requests.map(({ apiKey }) => apiKey)).toEqual(['sk-caller', 'sk-server'])
  })

  test('default_headers are added, and win over headers of the same name in any case', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('ok'))

    await ask(server, { default_headers: { 'X-Team': 'blue', Authorization: 'Bearer sk-mine' } })

    const [request] = server.provider.requests
    expect(request!.headers['x-team']).toBe('blue')
    expect(request!.apiKey).toBe('sk-mine')
  })

  test('extra_headers go to the address of the caller, headers of the agent do not', async () => {
    const modelSettings = { providerData: { extraHeaders: { 'x-operator': 'hush' } } }
    const server = await startTestServer({ agencies: soloAgency({ modelSettings }), ...LOOPBACK })
    const theirs = await callersProvider()
    const model_settings_extra_args = { extra_headers: { 'X-Trace': '7' } }

    await ask(server, { base_url: theirs.baseUrl, api_key: 'sk-caller', model_settings_extra_args })

    expect(theirs.requests[0]!.headers).toMatchObject({ 'x-trace': '7' })
    expect(theirs.requests[0]!.headers).not.toHaveProperty('x-operator')
  })

  test('headers that frame the request are not taken over', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('ok'))
    const default_headers = {
      host: 'elsewhere',
      'Content-Length': '3',
      'accept-encoding': 'gzip',
      'content-type': 'a/b',
    }

    const { status } = await ask(server, { default_headers })

    expect(status).toBe(200)
    expect(server.provider.requests[0]!.headers).toMatchObject({ 'content-type': 'application/json' })
    expect(server.provider.requests[0]!.headers.host).toContain('127.0.0.1')
  })

  test.each([
    [{}],
    [{ base_url: null, api_key: null, default_headers: null, thirdparty_keys: null, model: null }],
    [null],
  ])('nothing is overridden by %j', async (config) => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('ok'))

    expect((await ask(server, config)).status).toBe(200)

    expect(server.provider.requests[0]).toMatchObject({ apiKey: 'sk-server', model: 'gpt-test' })
  })

  test('keys that are null or blank are none', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('ok'))

    for (const none of ['', ' ', null]) {
      expect((await ask(server, { api_key: none, thirdparty_keys: { openai: none } })).status).toBe(200)
    }
    expect(server.provider.requests.map(({ apiKey }) => apiKey)).toEqual(['sk-server', 'sk-server', 'sk-server'])
  })

  test('unknown members are ignored', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('ok'))

    expect((await ask(server, { organization: 'org', timeout: 3 })).status).toBe(200)
  })

  test('streams, sub-agents and the title of the chat go to the same place', async () => {
    const server = await startTestServer({ agencies: soloAgency(), ...LOOPBACK })
    const theirs = await callersProvider()
    theirs.respond(() => text('A Good Title'))

    const stream = await server.stream('/solo/get_response_stream', {
      message: 'hi',
      generate_chat_name: true,
      client_config: { base_url: theirs.baseUrl, api_key: 'sk-caller' },
    })

    expect((await stream.all()).result.chat_name).toBe('A Good Title')
    expect(theirs.requests.map(({ apiKey }) => apiKey)).toEqual(['sk-caller', 'sk-caller'])
    expect(server.provider.requests).toEqual([])
  })
})

// The operator's key must never reach an address that a caller chose.
describe('the key of the server stays with the server', () => {
  test.each([
    ['base_url alone', {}],
    ['base_url and an empty key', { api_key: '' }],
    ['base_url and headers', { default_headers: { 'x-team': 'blue' } }],
  ])('no Authorization is sent with %s', async (_, more) => {
    const headers = {
      providerData: { extraHeaders: { 'x-operator-secret': 'hush', authorization: 'Bearer sk-operator' } },
    }
    const server = await startTestServer({ agencies: soloAgency({ modelSettings: headers }), ...LOOPBACK })
    const theirs = await callersProvider({ validate: false })

    const { status } = await ask(server, { base_url: theirs.baseUrl, ...more })

    expect(status).toBe(200)
    expect(theirs.requests).toHaveLength(1)
    expect(theirs.requests[0]!.headers).not.toHaveProperty('authorization')
    expect(theirs.requests[0]!.headers).not.toHaveProperty('x-operator-secret')
    expect(JSON.stringify(theirs.requests[0]!.headers)).not.toContain('sk-')
  })

  test('no Authorization is sent with uploaded and looked-up files either', async () => {
    const server = await startTestServer({ agencies: soloAgency(), ...LOOPBACK })
    const theirs = await callersProvider({ validate: false })
    const { id } = theirs.files.add({ filename: 'a.pdf', content: '%PDF-1.4' })
    const source = await callersProvider({ validate: false })
    const pdf = source.files.add({ filename: 'b.pdf', content: '%PDF-1.4' })

    const { body } = await ask(
      server,
      { base_url: theirs.baseUrl, default_headers: { 'x-team': 'blue' } },
      { file_ids: [id], file_urls: { 'b.pdf': `${source.baseUrl}/files/${pdf.id}/content` } },
    )

    expect(body.response).toBe("from the caller's provider: gpt-test")
    const calls = theirs.requests.map(({ method, path, headers }) => [method, path.split('/')[2], headers['x-team']])
    expect(calls).toEqual([
      ['GET', 'files', 'blue'],
      ['POST', 'files', 'blue'],
      ['POST', 'responses', 'blue'],
    ])
    for (const request of [...theirs.requests, ...source.requests]) {
      expect(request.headers).not.toHaveProperty('authorization')
    }
  })

  test.each(['thirdparty/openai_compatible/llama', 'thirdparty/anthropic/claude-x'])(
    'no key of the operator is sent for %s',
    async (model) => {
      const env = { ANTHROPIC_API_KEY: 'sk-operator', OPENAI_COMPATIBLE_API_KEY: 'sk-operator' }
      const server = await startTestServer({ agencies: soloAgency({ model }), env, ...LOOPBACK })
      const theirs = await callersProvider({ validate: false })

      await ask(server, { base_url: theirs.baseUrl })

      for (const { headers } of theirs.requests) expect(JSON.stringify(headers)).not.toContain('sk-operator')
    },
  )
})

describe.each(BOTH)('a base_url that may not be called: POST %s', (path) => {
  test.each([
    ['a loopback address', 'http://127.0.0.1:1/v1'],
    ['a private address', 'https://10.0.0.8/v1'],
    ['the address of cloud metadata', 'http://169.254.169.254/latest'],
    ['an address in other clothes', 'http://0x7f000001/v1'],
    ['a mapped address', 'http://[::ffff:127.0.0.1]/v1'],
    ['a private name', 'http://localhost:11434/v1'],
    ['another scheme', 'file:///etc/passwd'],
    ['credentials in the URL', 'https://user:secret@api.example.com/v1'],
    ['no URL', 'not a url'],
    ['an empty text', ''],
  ])('422 names client_config.base_url: %s', async (_, base_url) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const { status, body } = await server.post(path, { message: 'hi', client_config: { base_url, api_key: 'sk' } })

    expect(status).toBe(422)
    expect(body.detail).toMatchObject([{ type: 'value_error', loc: ['body', 'client_config', 'base_url'] }])
    expect(body.error).toContain('client_config.base_url')
    expect(server.provider.requests).toEqual([])
  })
})

describe('what the operator allows and denies', () => {
  test('BUREAU_ALLOWED_HOSTS allows an address', async () => {
    const server = await startTestServer({
      agencies: soloAgency(),
      env: { BUREAU_ALLOWED_HOSTS: '10.9.9.9, 127.0.0.1' },
    })
    const theirs = await callersProvider()

    expect((await ask(server, { base_url: theirs.baseUrl, api_key: 'sk-caller' })).status).toBe(200)
  })

  test('a denied address is refused although it is allowed too', async () => {
    const egress = { allow: ['127.0.0.0/8'], deny: ['127.0.0.1'] }
    const server = await startTestServer({ agencies: soloAgency(), egress })
    const theirs = await callersProvider()

    expect((await ask(server, { base_url: theirs.baseUrl, api_key: 'sk-caller' })).status).toBe(422)
    expect(theirs.requests).toEqual([])
  })

  test('an address that cannot be understood stops the start', async () => {
    await expect(startTestServer({ agencies: soloAgency(), egress: { allow: ['10.0.0.0/99'] } })).rejects.toThrow(
      '10.0.0.0/99',
    )
  })

  test('the operator’s own provider may be anywhere', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])

    expect((await ask(server, null)).body.response).toBe('ok')
  })
})

describe('422 for values of the wrong kind', () => {
  test.each([
    ['client_config', 'x', { type: 'dict_type', loc: ['body', 'client_config'] }],
    ['base_url', { base_url: 5 }, { type: 'string_type', loc: ['body', 'client_config', 'base_url'] }],
    ['api_key', { api_key: ['x'] }, { type: 'string_type', loc: ['body', 'client_config', 'api_key'] }],
    ['default_headers', { default_headers: 'x' }, { type: 'dict_type' }],
    [
      'a header',
      { default_headers: { a: 1 } },
      { type: 'string_type', loc: ['body', 'client_config', 'default_headers', 'a'] },
    ],
    ['a header name', { default_headers: { 'a b': 'x' } }, { type: 'value_error' }],
    ['a header value', { default_headers: { a: 'x\r\ny: z' } }, { type: 'value_error' }],
    ['thirdparty_keys', { thirdparty_keys: [] }, { type: 'dict_type' }],
    ['litellm_keys', { litellm_keys: 'x' }, { type: 'dict_type' }],
    ['a key', { thirdparty_keys: { anthropic: 1 } }, { type: 'string_type' }],
    ['model', { model: {} }, { type: 'string_type', loc: ['body', 'client_config', 'model'] }],
    ['the settings', { model_settings_extra_args: 'x' }, { type: 'dict_type' }],
    ['max_tokens', { model_settings_extra_args: { max_tokens: '5' } }, { type: 'value_error' }],
    ['include', { model_settings_extra_args: { include: 'x' } }, { type: 'value_error' }],
    ['reasoning_effort', { model_settings_extra_args: { reasoning_effort: 3 } }, { type: 'value_error' }],
    ['extra_body', { model_settings_extra_args: { extra_body: [] } }, { type: 'value_error' }],
    ['extra_headers', { model_settings_extra_args: { extra_headers: { a: 'x\ny' } } }, { type: 'value_error' }],
  ])('%s', async (_, config, entry) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const { status, body } = await ask(server, config)

    expect(status).toBe(422)
    expect(body.detail).toMatchObject([entry])
    expect(server.provider.requests).toEqual([])
  })
})

test('of many requests with keys of their own none sees another’s, and none waits', async () => {
  const server = await startTestServer({ agencies: soloAgency(), ...LOOPBACK })
  const theirs = await callersProvider()
  for (const provider of [server.provider, theirs]) provider.respond(({ apiKey }) => text(apiKey ?? 'none'))

  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, n) => {
      const own = n % 3 === 0 ? { base_url: theirs.baseUrl, api_key: `sk-${n}` } : { api_key: `sk-${n}` }
      return ask(server, n % 3 === 2 ? null : own)
    }),
  )

  answers.forEach(({ body }, n) => expect(body.response).toBe(n % 3 === 2 ? 'sk-server' : `sk-${n}`))
})
