import { describe, expect, test } from 'vitest'
import { agencies, CONVERSATIONS, plain, PNG } from '../support/conversations.ts'
import {
  a2aDoor,
  agUi,
  chatCompletions,
  dataUrl,
  type Door,
  getResponse,
  hangUp,
  mcp,
  overHttp,
  overRpc,
  responses,
  stream,
} from '../support/doors.ts'
import { hold, status, text, textDeltas, toolCall, type Turn } from '../support/fake-provider.ts'
import { type Json, startTestServer, type TestServer } from '../support/test-server.ts'

/** The same ten conversations through every way to an agency: the same answer, the same usage, the same history. */

const DOORS: readonly Door[] = [
  getResponse,
  stream,
  agUi,
  chatCompletions,
  responses,
  mcp,
  a2aDoor('JSON-RPC', overRpc),
  a2aDoor('HTTP', overHttp),
]

async function open(script: readonly Turn[]): Promise<TestServer> {
  const server = await startTestServer({ agencies: agencies() })
  server.provider.script(script)
  return server
}

const kinds = (server: TestServer): string[] =>
  server.provider.modelRequests.at(-1)!.items.map(({ type, role }: Json) => role ?? type)

const TOKENS_OF_REQUEST = 30

describe.each(DOORS)('$name', (door) => {
  test.each(CONVERSATIONS)('$name', async ({ agency, script, answer, history }) => {
    const server = await open(script)

    const heard = await door.ask(server, agency, { text: 'Hello?' })

    expect(plain(heard.answer, answer)).toEqual(answer)
    expect(kinds(server)).toEqual(history)
    // AG-UI and A2A have no place for the usage.
    if (heard.tokens !== undefined) expect(heard.tokens).toBe(script.length * TOKENS_OF_REQUEST)
    expect(server.provider.unused).toBe(0)
  })

  test('an image', async () => {
    const server = await open([text('A dot.')])
    const said = { text: 'What is it?', image: PNG }

    if (door.noImages !== undefined) {
      expect(await door.raw(server, said)).toContain('invalid_request')
      expect(server.provider.modelRequests).toEqual([])
      return
    }
    const { answer } = await door.ask(server, 'solo', said)

    expect(answer).toBe('A dot.')
    expect(JSON.stringify(server.provider.modelRequests.at(-1)!.items)).toContain(dataUrl(PNG))
  })

  test('an approval', async () => {
    const server = await open([toolCall('pay', { euros: 5 }, { callId: 'call_p' }), text('Paid.')])

    if (!door.approve) {
      // Nobody could bring the decision, so nothing waits for it.
      expect(await door.raw(server, { text: 'Pay.' })).toContain('approval_required')
      return
    }
    const { answer } = await door.approve(server)

    expect(answer).toBe('Paid.')
    expect(kinds(server)).toEqual(['user', 'function_call', 'function_call_output'])
    expect(server.provider.modelRequests.at(-1)!.toolOutputs.map(({ output }) => output)).toEqual(['paid 5'])
  })

  test('an error: the same sentence, and nothing of the provider’s', async () => {
    const server = await open([status(401)])

    const raw = await door.raw(server, { text: 'Hello?' })

    expect(raw).toContain('The model provider did not accept the API key (HTTP 401).')
    expect(raw).not.toContain('sk-server')
  })

  test('a cancel: the model is asked no more', async () => {
    const server = await startTestServer({ agencies: agencies() })
    server.provider.respond(() => textDeltas(['One ', hold(server.provider.gate())]))

    if (door.cancel) await door.cancel(server)
    else await hangUp(door, server)

    await server.provider.waitForAborts(1)
    expect(server.provider.modelRequests).toHaveLength(1)
  })
})
