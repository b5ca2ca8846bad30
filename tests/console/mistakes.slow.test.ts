import { Agency, Agent, type AgentOptions, MCPServerStreamableHttp, tool } from '@bureau/framework'
import type { ServerOptions } from '@bureau/server'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { stall, status, text, toolCall, type Turn } from '../support/fake-provider.ts'
import { startTestServer } from '../support/test-server.ts'
import { startOAuthSetUp } from '../oauth/support/oauth-set-up.ts'
import { canBrowse, consoleBrowser } from './support/console-page.ts'

const findOrder = tool({
  name: 'find_order',
  description: 'Finds an order.',
  parameters: z.object({ number: z.number().int() }),
  execute: ({ number }) => {
    throw new Error(`the table of orders is gone (order ${number})`)
  },
})

type Mistake = {
  readonly name: string
  readonly agent?: Partial<AgentOptions>
  readonly agency?: { readonly maxTurns?: number; readonly runTimeoutMs?: number }
  readonly options?: Partial<ServerOptions>
  readonly env?: Record<string, string>
  readonly answers?: readonly Turn[]
  /** What the playground shows, besides the code. */
  readonly shows: readonly (string | RegExp)[]
  readonly code: string
}

/** What goes wrong most, with what the page must say of it: what happened, the cause, and what to do. */
const MISTAKES: readonly Mistake[] = [
  {
    name: 'a wrong key of the provider',
    answers: [status(401, { error: { message: 'Incorrect API key provided.', code: 'invalid_api_key' } })],
    code: 'upstream_auth_failed',
    shows: ['Incorrect API key provided.', 'Check the key of the model provider'],
  },
  {
    name: 'a model that does not exist',
    answers: [status(404, { error: { message: 'The model gpt-nope does not exist.', code: 'model_not_found' } })],
    code: 'upstream_invalid_request',
    shows: ['The model gpt-nope does not exist.', 'Often the name of a model'],
  },
  {
    name: 'a provider that cannot be reached',
    env: { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' },
    code: 'upstream_unavailable',
    shows: [/ECONNREFUSED|bad port|fetch failed/, 'Check OPENAI_BASE_URL'],
  },
  {
    name: 'an account without credit',
    answers: [status(429, { error: { message: 'You exceeded your quota.', code: 'insufficient_quota' } })],
    code: 'upstream_quota_exhausted',
    shows: ['You exceeded your quota.', 'Add credit'],
  },
  {
    name: 'a conversation that is too long',
    answers: [
      status(400, { error: { message: 'context_length_exceeded: 300000 tokens', code: 'context_length_exceeded' } }),
    ],
    code: 'context_length_exceeded',
    shows: ['300000 tokens', 'Begin a new chat'],
  },
  {
    name: 'an MCP server that cannot be reached',
    agent: { mcpServers: [new MCPServerStreamableHttp({ name: 'absent', url: 'http://127.0.0.1:9/mcp' })] },
    code: 'tool_server_unavailable',
    shows: ['absent', 'Check the address or the command of the MCP server'],
  },
  {
    name: 'a guardrail that trips',
    agent: {
      outputGuardrails: [
        {
          name: 'no secrets',
          execute: async () => ({ tripwireTriggered: true, outputInfo: 'Say it without the secret.' }),
        },
      ],
      validationAttempts: 0,
    },
    answers: [text('The secret is 42.')],
    code: 'guardrail_tripped',
    shows: [
      'Say it without the secret.',
      'A guardrail of the agent has stopped it',
      /The guardrail "no secrets" has refused/,
    ],
  },
  {
    name: 'an agent that goes round in circles',
    agent: { tools: [findOrder] },
    agency: { maxTurns: 1 },
    answers: [toolCall('find_order', { number: 1 }), toolCall('find_order', { number: 1 })],
    code: 'max_turns_exceeded',
    shows: ['raise maxTurns', /maxTurns is 1/],
  },
  {
    name: 'a run that takes too long',
    agency: { runTimeoutMs: 500 },
    answers: [[text('Slowly'), stall({ before: 'response.completed' })]],
    code: 'run_timeout',
    shows: ['The run took longer than it may.', 'raise the time limit', /the time limit is 0.5 s/],
  },
]

function agencyOf({ agent = {}, agency = {} }: Mistake): { solo: Agency } {
  const solo = new Agent({ name: 'Solo', instructions: 'Help.', model: 'gpt-test', ...agent })
  return { solo: new Agency({ name: 'Solo', entryPoint: solo, ...agency }) }
}

describe.skipIf(!canBrowse)('mistakes are shown with their cause', () => {
  const open = consoleBrowser()

  test.each(MISTAKES)('$name', async (mistake) => {
    const { answers = [], env = {}, code, shows } = mistake
    const server = await startTestServer({ agencies: agencyOf(mistake), env })
    // Retries get the same answer.
    let at = 0
    server.provider.respond(() => answers[Math.min(at++, answers.length - 1)])
    const { page, complaints } = await open(server.url)

    await page.getByRole('textbox', { name: 'Message' }).fill('Hello')
    await page.keyboard.press('Enter')
    const alert = page.getByRole('alert')
    for (const words of [...shows, code]) await alert.getByText(words).first().waitFor()
    await page.getByRole('link', { name: 'Timeline' }).click()

    await page.getByRole('main').getByText(code).first().waitFor()
    expect(complaints).toEqual([])
  })

  test('a tool that throws', async () => {
    const server = await startTestServer({
      agencies: agencyOf({ name: '', code: '', shows: [], agent: { tools: [findOrder] } }),
    })
    server.provider.script([toolCall('find_order', { number: 7 }), text('I could not find it.')])
    const { page } = await open(server.url)

    await page.getByRole('textbox', { name: 'Message' }).fill('Find order 7')
    await page.keyboard.press('Enter')
    await page.getByText('I could not find it.').waitFor()
    expect(await page.locator('summary', { hasText: 'find_order' }).getByText('failed').count()).toBe(1)
    await page.getByRole('link', { name: 'Timeline' }).click()
    await page.getByRole('button', { name: 'find_order' }).click()

    await page.getByText('Error: the table of orders is gone (order 7)', { exact: true }).waitFor()
  })

  test('arguments that do not fit the schema of a tool', async () => {
    const server = await startTestServer({
      agencies: agencyOf({ name: '', code: '', shows: [], agent: { tools: [findOrder] } }),
    })
    server.provider.script([toolCall('find_order', { number: 'seven' }), text('I asked for it wrongly.')])
    const { page } = await open(server.url)

    await page.getByRole('textbox', { name: 'Message' }).fill('Find order 7')
    await page.keyboard.press('Enter')
    await page.getByText('I asked for it wrongly.').waitFor()
    await page.locator('summary', { hasText: 'find_order' }).click()

    expect(await page.getByRole('group', { name: 'Result' }).innerText()).toMatch(/number/)
  })

  test('a sign-in that is refused', async () => {
    const { server } = await startOAuthSetUp({ oauthUserId: () => 'ada' })
    const { page } = await open(server.url)
    await page.getByRole('textbox', { name: 'Message' }).fill('Read my notes')
    await page.keyboard.press('Enter')
    const opened = page.waitForEvent('popup')
    await page.getByRole('link', { name: 'Sign in' }).click()
    const provider = await opened
    await provider.click('text=Cancel')
    await provider.waitForSelector('text=Not signed in')

    await page.getByText('The sign-in to notes did not succeed.').waitFor()
    await page.getByRole('link', { name: 'Timeline' }).click()

    await page.getByRole('button', { name: 'authenticate_mcp_server' }).click()
    await page
      .getByRole('region', { name: 'Step authenticate_mcp_server' })
      .getByText(/access_denied/)
      .first()
      .waitFor()
    expect(
      await page.getByRole('region', { name: 'Step authenticate_mcp_server' }).getByText('tool_failed').count(),
    ).toBe(1)
    expect(await page.getByRole('main').innerText()).not.toContain('its-secret')
  })

  test('a server that is gone', async () => {
    const server = await startTestServer({ agencies: agencyOf({ name: '', code: '', shows: [] }) })
    const { page } = await open(server.url)
    await page.getByRole('textbox', { name: 'Message' }).waitFor()

    server.provider.script([text('Here I am.')])
    await page.context().setOffline(true)
    await page.getByRole('textbox', { name: 'Message' }).fill('Hello')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('The server cannot be reached.').waitFor()

    await page.context().setOffline(false)
    await page.getByText('Here I am.').waitFor()

    expect(await page.getByRole('alert').count()).toBe(0)
    expect(server.provider.requests.length).toBe(1)
  })

  test('the doctor counts them, with what to do', async () => {
    const server = await startTestServer({ agencies: agencyOf({ name: '', code: '', shows: [] }) })
    server.provider.respond(() => status(401))
    await server.post('/solo/get_response', { message: 'Hello' })
    await server.post('/solo/get_response', { message: 'Hello again' })
    const { page, barriers } = await open(server.url, { at: '/settings' })

    await page.getByText('2 of the latest runs failed: The model provider did not accept the API key').waitFor()
    await page.getByText('Check the key of the model provider').waitFor()

    expect(await barriers()).toEqual([])
  })
})
