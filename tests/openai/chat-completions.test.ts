import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { Agency, Agent, tool } from '@bureau/framework'
import { generateText, streamText } from 'ai'
import OpenAI, { APIError, NotFoundError } from 'openai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  errorEvent,
  hold,
  incomplete,
  reasoning,
  refusal,
  text,
  textDeltas,
  toolCall,
  usage,
} from '../support/fake-provider.ts'
import { soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

const hello = [{ role: 'user' as const, content: 'Hello' }]

const lookUp = tool({
  name: 'look_up',
  description: 'Looks something up.',
  parameters: z.object({ key: z.string() }),
  execute: ({ key }) => `value of ${key}`,
})

const weather = {
  type: 'function' as const,
  function: {
    name: 'get_weather',
    description: 'The weather in a city.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}

const clientOf = (server: TestServer): OpenAI =>
  new OpenAI({ apiKey: 'unused', baseURL: `${server.url}/openai/v1`, maxRetries: 0 })

async function chunksOf(server: TestServer, request: object = {}): Promise<OpenAI.ChatCompletionChunk[]> {
  const stream = await clientOf(server).chat.completions.create({
    model: 'solo',
    messages: hello,
    stream: true,
    ...request,
  })
  const chunks: OpenAI.ChatCompletionChunk[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return chunks
}

const contentOf = (chunks: OpenAI.ChatCompletionChunk[]): string =>
  chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')

const finishReasons = (chunks: OpenAI.ChatCompletionChunk[]): string[] =>
  chunks.flatMap(({ choices }) => choices[0]?.finish_reason ?? [])

describe('GET /openai/v1/models', () => {
  test('lists the agencies, and the entry points of those that have several', async () => {
    const [a, b] = ['Front Desk', 'Billing'].map((name) => new Agent({ name, model: 'gpt-test' })) as [Agent, Agent]
    const agencies = { ...soloAgency(), shop: new Agency({ name: 'Shop', entryPoint: [a, b] }) }
    const server = await startTestServer({ agencies })

    const { data } = await clientOf(server).models.list()

    expect(data.map(({ id }) => id)).toEqual(['solo', 'shop', 'shop/Front Desk', 'shop/Billing'])
    expect(data[0]).toMatchObject({ object: 'model', owned_by: 'bureau', created: expect.any(Number) })
  })

  test.each(['solo', 'solo/Solo', 'solo%2FSolo'])('finds one by its id, as %s', async (id) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const { status, body } = await server.get(`/openai/v1/models/${id}`)

    expect({ status, id: body.id }).toEqual({ status: 200, id: decodeURIComponent(id) })
  })

  test('addresses and methods that the API does not have are refused in its shape', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const [method, address] = [
      await server.get('/openai/v1/chat/completions'),
      await server.post('/openai/v1/nothing', {}),
    ]

    expect([method.status, method.body.error]).toEqual([405, expect.objectContaining({ code: 'method_not_allowed' })])
    expect([address.status, address.body.error]).toEqual([404, expect.objectContaining({ code: 'route_not_found' })])
  })

  test('404 for what is not there', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = clientOf(server).models.retrieve('other')

    await expect(answer).rejects.toThrow(NotFoundError)
    await expect(answer).rejects.toMatchObject({
      code: 'model_not_found',
      param: 'model',
      type: 'invalid_request_error',
    })
  })
})

describe('POST /openai/v1/chat/completions', () => {
  test('answers with the text and the usage of the whole run', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }) })
    server.provider.script([
      [toolCall('look_up', { key: 'a' }), usage({ input: 10, output: 5 })],
      [text('It is value of a.'), usage({ input: 20, output: 7, cached: 8, reasoning: 3 })],
    ])

    const answer = await clientOf(server).chat.completions.create({ model: 'solo', messages: hello })

    expect(answer).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/),
      object: 'chat.completion',
      model: 'solo',
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'It is value of a.' } }],
      usage: {
        prompt_tokens: 30,
        completion_tokens: 12,
        total_tokens: 42,
        prompt_tokens_details: { cached_tokens: 8 },
        completion_tokens_details: { reasoning_tokens: 3 },
      },
    })
    // The agent's own tools are its own business.
    expect(answer.choices[0]!.message.tool_calls).toBeUndefined()
  })

  test('streams the same text, one role, one finish_reason, and the usage only when it is asked for', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }) })
    server.provider.respond(({ toolOutputs }) =>
      toolOutputs.length === 0
        ? [text('Let me see.'), toolCall('look_up', { key: 'a' })]
        : textDeltas(['It "is"\n', 'value\\', '"of" ä 😀.']),
    )

    const plain = await chunksOf(server)
    const counted = await chunksOf(server, { stream_options: { include_usage: true } })

    expect(plain[0]!.choices[0]).toEqual({ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null })
    expect(contentOf(plain)).toBe('Let me see.\n\nIt "is"\nvalue\\"of" ä 😀.')
    expect(finishReasons(plain)).toEqual(['stop'])
    expect(plain.some((chunk) => chunk.usage)).toBe(false)
    expect(counted.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } })
    expect(new Set(plain.map(({ id }) => id)).size).toBe(1)
  })

  test('the stream helper of the SDK puts together what the plain answer has', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('One two three.'))
    const client = clientOf(server)

    const streamed = await client.chat.completions.stream({ model: 'solo', messages: hello }).finalChatCompletion()
    const plain = await client.chat.completions.create({ model: 'solo', messages: hello })

    expect(streamed.choices[0]!.message.content).toBe('One two three.')
    expect(plain.choices[0]!.message.content).toBe('One two three.')
  })

  test('the whole conversation goes to the agent, with the caller’s system messages as instructions', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])

    await clientOf(server).chat.completions.create({
      model: 'solo/Solo',
      messages: [
        { role: 'system', content: 'Speak French.' },
        { role: 'user', content: 'Hello' },
        { role: 'assistant', content: 'Bonjour.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'low' } },
            { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' } },
          ],
        },
      ],
    })

    const [request] = server.provider.modelRequests
    expect(request!.instructions).toBe('You are the secret instructions.\n\nSpeak French.')
    expect(request!.body['input']).toMatchObject([
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: 'Bonjour.' },
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'What is this?' },
          { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'low' },
          { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' },
        ],
      },
    ])
  })

  test('reasoning comes under both names that clients look for', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => [reasoning({ summary: ['First.', 'Second.'] }), text('Done.')])

    const chunks = await chunksOf(server)
    const { body } = await server.post('/openai/v1/chat/completions', { model: 'solo', messages: hello })

    const of = (name: string): string =>
      chunks.map(({ choices }) => (choices[0]?.delta as Record<string, string> | undefined)?.[name] ?? '').join('')
    expect(of('reasoning_content')).toBe('First.\n\nSecond.')
    expect(of('reasoning')).toBe('First.\n\nSecond.')
    expect(contentOf(chunks)).toBe('Done.')
    expect(body.choices[0].message).toMatchObject({
      content: 'Done.',
      reasoning_content: 'First.\n\nSecond.',
      reasoning: 'First.\n\nSecond.',
    })
  })

  test('what agents say to each other is not part of the answer', async () => {
    const boss = new Agent({ name: 'Boss', instructions: 'I am Boss.', model: 'gpt-test' })
    const worker = new Agent({ name: 'Worker', instructions: 'I am Worker.', model: 'gpt-test' })
    const agency = new Agency({ entryPoint: boss, flows: [[boss, worker]] })
    const server = await startTestServer({ agencies: { solo: agency } })
    server.provider.respond(({ instructions, toolOutputs }) => {
      if (instructions === 'I am Worker.') return text('secret work')
      const message = { recipient_agent: 'Worker', message: 'Do it', additional_instructions: '' }
      return toolOutputs.length > 0 ? text('All done.') : toolCall('send_message', message)
    })

    expect(contentOf(await chunksOf(server))).toBe('All done.')
  })

  test('a run that was cut off by a limit ends with length', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => incomplete('max_output_tokens', 'Half an'))
    const client = clientOf(server)

    const plain = await client.chat.completions.create({ model: 'solo', messages: hello, max_completion_tokens: 20 })

    expect(plain.choices[0]).toMatchObject({ finish_reason: 'length', message: { content: 'Half an' } })
    expect(finishReasons(await chunksOf(server))).toEqual(['length'])
    expect(server.provider.modelRequests[0]!.body['max_output_tokens']).toBe(20)
  })

  test('a caller may ask for a shorter answer than the agent’s own limit, not for a longer one', async () => {
    const server = await startTestServer({ agencies: soloAgency({ modelSettings: { maxTokens: 100 } }) })
    server.provider.respond(() => text('Hi.'))
    const client = clientOf(server)

    for (const max_completion_tokens of [20, 200])
      await client.chat.completions.create({ model: 'solo', messages: hello, max_completion_tokens })

    expect(server.provider.modelRequests.map(({ body }) => body['max_output_tokens'])).toEqual([20, 100])
  })

  test('a refusal of the model is in refusal', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => refusal('I cannot do that.'))

    const streamed = await chunksOf(server)
    const plain = await clientOf(server).chat.completions.create({ model: 'solo', messages: hello })

    expect(streamed.map(({ choices }) => choices[0]?.delta.refusal ?? '').join('')).toBe('I cannot do that.')
    expect(plain.choices[0]!.message).toMatchObject({ content: null, refusal: 'I cannot do that.' })
  })

  test('a client that hangs up ends its run', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One', hold(gate), ' two'])])
    const stream = await clientOf(server).chat.completions.create({ model: 'solo', messages: hello, stream: true })
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content === 'One') break

    await server.provider.waitForAborts(1)

    expect(server.provider.aborted).toBe(1)
  })
})

describe('functions of the caller', () => {
  test('are offered to the addressed agent and end the run with their call', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }) })
    server.provider.respond(() => [toolCall('look_up', { key: 'a' }), toolCall('get_weather', { city: 'Oslo' })])

    const answer = await clientOf(server).chat.completions.create({ model: 'solo', messages: hello, tools: [weather] })
    const chunks = await chunksOf(server, { tools: [weather] })

    expect(answer.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: {
        content: null,
        tool_calls: [{ type: 'function', function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }],
      },
    })
    expect(answer.choices[0]!.message.tool_calls).toHaveLength(1)
    expect(finishReasons(chunks)).toEqual(['tool_calls'])
    const pieces = chunks.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? [])
    expect(new Set(pieces.map(({ index }) => index))).toEqual(new Set([0]))
    expect(pieces[0]).toMatchObject({ id: expect.any(String), type: 'function', function: { name: 'get_weather' } })
    expect(pieces.map((piece) => piece.function?.arguments).join('')).toBe('{"city":"Oslo"}')
    expect(server.provider.modelRequests).toHaveLength(2)
    expect(server.provider.modelRequests[0]!.body['tools']).toMatchObject([
      { name: 'look_up' },
      { name: 'get_weather', parameters: weather.function.parameters },
    ])
  })

  test('the loop of the SDK carries them out and gets the answer', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(({ toolOutputs }) =>
      toolOutputs.length === 0
        ? toolCall('get_weather', { city: 'Oslo' })
        : text(`It is ${String(toolOutputs[0]?.output)}.`),
    )

    const runner = clientOf(server).chat.completions.runTools({
      model: 'solo',
      messages: hello,
      tools: [
        {
          type: 'function',
          function: {
            ...weather.function,
            function: ({ city }: { city: string }) => `cold in ${city}`,
            parse: JSON.parse,
          },
        },
      ],
    })

    expect(await runner.finalContent()).toBe('It is cold in Oslo.')
  })

  test('tool_choice names what must be called, restricts what is offered, or takes it all away', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }) })
    server.provider.respond(({ body }) =>
      body['tool_choice'] === undefined ? text('ok') : toolCall('get_weather', { city: 'Oslo' }),
    )
    const other = { type: 'function' as const, function: { name: 'other' } }
    const ask = async (tool_choice: OpenAI.ChatCompletionToolChoiceOption): Promise<unknown> => {
      await clientOf(server).chat.completions.create({
        model: 'solo',
        messages: hello,
        tools: [weather, other],
        tool_choice,
      })
      const { tools, tool_choice: sent } = server.provider.modelRequests.at(-1)!.body
      return { tools: (tools as { name: string }[]).map(({ name }) => name), sent }
    }
    const named = { type: 'function' as const, function: { name: 'get_weather' } }

    expect(await ask('auto')).toEqual({ tools: ['look_up', 'get_weather', 'other'], sent: undefined })
    expect(await ask('none')).toEqual({ tools: ['look_up'], sent: undefined })
    expect(await ask('required')).toEqual({ tools: ['get_weather', 'other'], sent: 'required' })
    expect(await ask(named)).toEqual({ tools: ['get_weather'], sent: { type: 'function', name: 'get_weather' } })
    expect(await ask({ type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{ ...other }] } })).toEqual({
      tools: ['look_up', 'other'],
      sent: undefined,
    })
  })

  test('400 for a function with the name of one of the agent’s own tools', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }) })

    const answer = clientOf(server).chat.completions.create({
      model: 'solo',
      messages: hello,
      tools: [weather, { type: 'function', function: { name: 'look_up' } }],
    })

    await expect(answer).rejects.toMatchObject({ status: 400, param: 'tools[1]' })
    expect(server.provider.modelRequests).toEqual([])
  })
})

describe('response_format', () => {
  const format = { type: 'json_schema', json_schema: { name: 'city', schema: { type: 'object' } } } as const

  test('is asked of the model', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('{"city":"Oslo"}'))

    const answer = await clientOf(server).chat.completions.create({
      model: 'solo',
      messages: hello,
      response_format: format,
    })

    expect(answer.choices[0]!.message.content).toBe('{"city":"Oslo"}')
    expect(server.provider.modelRequests[0]!.body['text']).toMatchObject({
      format: { type: 'json_schema', name: 'city' },
    })
  })

  test('400 for an agent that has a form of its own', async () => {
    const server = await startTestServer({ agencies: soloAgency({ outputType: z.object({ a: z.string() }) }) })

    const answer = clientOf(server).chat.completions.create({
      model: 'solo',
      messages: hello,
      response_format: format,
    })

    await expect(answer).rejects.toMatchObject({ status: 400, param: 'response_format' })
  })
})

describe('refusals', () => {
  test.each([
    { body: {}, param: 'messages', says: /^messages: there is no message to answer$/ },
    { body: { messages: [] }, param: 'messages', says: /^messages: there is no message to answer$/ },
    { body: { messages: 'x' }, param: 'messages', says: /^messages: must be a list$/ },
    { body: { messages: [{ role: 'system', content: 'only this' }] }, param: 'messages' },
    { body: { messages: [{ role: 'user', content: 7 }] }, param: 'messages[0].content', says: /a string.*a list/ },
    {
      body: { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }] },
      param: 'messages[0].content[0].image_url.url',
    },
    {
      body: { messages: [...hello, { role: 'tool', tool_call_id: 'c', content: 'x' }] },
      param: 'messages[1].tool_call_id',
    },
    { body: { messages: hello, n: 2 }, param: 'n' },
    { body: { messages: hello, logprobs: true }, param: 'logprobs' },
    { body: { messages: hello, modalities: ['text', 'audio'] }, param: 'modalities' },
    { body: { messages: hello, functions: [] }, param: 'functions' },
    { body: { messages: hello, tools: [{ type: 'web_search' }] }, param: 'tools[0].type' },
    { body: { messages: hello, tool_choice: 'required' }, param: 'tool_choice' },
    { body: { messages: hello, tool_choice: 'any' }, param: 'tool_choice', says: /one of "none", "auto", "required"/ },
  ])('400 for $param', async ({ body, param, says = /./ }: { body: object; param: string; says?: RegExp }) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const { status, body: answer } = await server.post('/openai/v1/chat/completions', { model: 'solo', ...body })

    expect({ status, param: answer.error.param }).toEqual({ status: 400, param })
    expect(answer.error).toMatchObject({ message: expect.stringMatching(says), type: 'invalid_request_error' })
    expect(server.provider.requests).toEqual([])
  })

  test.each([
    ['an address that cannot be read', '/openai/v1/models/%zz', 400, 'invalid_request'],
    ['an address that nobody has', '/openai/v1/embeddings', 404, 'route_not_found'],
  ])('of %s have that API’s shape, too', async (...[, path, status, code]) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.get(path)

    expect([answer.status, answer.body.error.type]).toEqual([status, 'invalid_request_error'])
    expect([code, null]).toContain(answer.body.error.code)
  })

  test('members that an agent’s author decides are ignored', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])

    await clientOf(server).chat.completions.create({
      model: 'solo',
      messages: hello,
      temperature: 1.9,
      top_p: 0.1,
      n: 1,
      seed: 7,
      user: 'u',
      stop: ['x'],
      logit_bias: { 1: 2 },
    })

    expect(server.provider.modelRequests[0]!.body).not.toHaveProperty('temperature')
  })

  test.each([
    { headers: {}, status: 401, code: 'not_authenticated' },
    { headers: { authorization: 'Bearer wrong' }, status: 401, code: 'unauthorized' },
  ])('$status $code without the server’s token', async ({ headers, status, code }) => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })

    const answer = await server.post('/openai/v1/chat/completions', { model: 'solo', messages: hello }, headers)

    expect(answer.status).toBe(status)
    expect(answer.body).toEqual({
      error: { message: expect.any(String), type: 'authentication_error', param: null, code },
    })
  })

  test.each(['chat/completions', 'responses'])('400 for another content type, to %s', async (route) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await fetch(`${server.url}/openai/v1/${route}`, { method: 'POST', body: 'Hello' })

    expect([answer.status, await answer.json()]).toMatchObject([400, { error: { code: 'invalid_content_type' } }])
  })

  test('400 for what is not JSON', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post('/openai/v1/chat/completions', '{"model":')

    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'invalid_json' } } })
  })

  test('502 for a failure of the model’s provider, which is not to be tried again', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => errorEvent('server_error'))
    const client = new OpenAI({ apiKey: 'unused', baseURL: `${server.url}/openai/v1` })

    const failing = client.chat.completions.create({ model: 'solo', messages: hello })

    await expect(failing).rejects.toMatchObject({ status: 502, type: 'server_error' })
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('a failure in the middle of a stream throws in the client', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => [text('Half'), errorEvent('server_error')])

    await expect(chunksOf(server)).rejects.toThrow(APIError)
  })

  test('openai: false takes the routes away', async () => {
    const server = await startTestServer({ agencies: soloAgency(), openai: false })

    expect((await server.get('/openai/v1/models')).status).toBe(404)
  })
})

describe('requests that a chat page makes by itself', () => {
  const task = '### Task:\nGenerate a title.\n### Chat History:\n<chat_history>\nUSER: Hi\n</chat_history>'
  const messages = [{ role: 'user' as const, content: task }]

  test.each([
    { sideRequests: 'agency', instructions: 'You are the secret instructions.', tools: 1 },
    { sideRequests: 'model', instructions: undefined, tools: 0 },
  ] as const)('$sideRequests: the agent has $tools tools', async ({ sideRequests, instructions, tools }) => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }), openai: { sideRequests } })
    server.provider.script([text('{"title":"Hi"}')])

    await clientOf(server).chat.completions.create({ model: 'solo', messages })

    const { body } = server.provider.modelRequests[0]!
    expect(body['instructions']).toBe(instructions)
    expect((body['tools'] as unknown[] | undefined)?.length ?? 0).toBe(tools)
  })

  test('refuse: 400, and users are answered as before', async () => {
    const server = await startTestServer({ agencies: soloAgency(), openai: { sideRequests: 'refuse' } })
    server.provider.respond(() => text('ok'))
    const client = clientOf(server)

    await expect(client.chat.completions.create({ model: 'solo', messages })).rejects.toMatchObject({
      status: 400,
      code: 'side_request_refused',
    })
    await client.chat.completions.create({ model: 'solo', messages: [{ role: 'user', content: '### Task: mow' }] })
    expect(server.provider.modelRequests).toHaveLength(1)
  })
})

describe('the AI SDK as client', () => {
  test('reads text and streams', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => [reasoning({ summary: ['Hm.'] }), text('Bonjour.')])
    const model = createOpenAICompatible({ name: 'bureau', baseURL: `${server.url}/openai/v1` }).chatModel('solo')

    const plain = await generateText({ model, prompt: 'Hello' })
    const streamed = streamText({ model, prompt: 'Hello' })

    expect(plain).toMatchObject({ text: 'Bonjour.', reasoningText: 'Hm.', finishReason: 'stop' })
    expect(await streamed.text).toBe('Bonjour.')
    expect(await streamed.reasoningText).toBe('Hm.')
  })
})
