import { describe, expect, test } from 'vitest'
import { agencies, CONVERSATIONS, plain, PNG } from '../support/conversations.ts'
import {
  a2aDoor,
  agUi,
  chatCompletions,
  dataUrl,
  type Door,
  hangUp,
  mcp,
  overHttp,
  overRpc,
  type Place,
  responses,
} from '../support/doors.ts'
import { hold, status, text, textDeltas, toolCall, type Turn } from '../support/fake-provider.ts'
import type { Json } from './support/test-client.ts'
import { servePlatform } from './support/test-platform.ts'

/** The same ten conversations as on the self-hosted server, through each of its protocols that the platform speaks. */

const DOORS: readonly Door[] = [
  agUi,
  chatCompletions,
  responses,
  mcp,
  a2aDoor('JSON-RPC', overRpc),
  a2aDoor('HTTP', overHttp),
]

const TOKENS_OF_REQUEST = 30

/** Clients of these may come back to their runs, which end by a request of the platform's own, or a while later. */
const COMING_BACK = new Set(['AG-UI', 'Chat Completions', 'Open Responses'])

async function cancelRun({ url, headers = {} }: Place): Promise<void> {
  const { data } = (await (await fetch(`${url}/v1/runs`, { headers })).json()) as Json
  await fetch(`${url}/v1/runs/${data[0].runId}/cancel`, { method: 'POST', headers })
}

describe.each(DOORS)('$name on the platform', (door) => {
  const platform = servePlatform('pglite', { agencies: agencies() })

  /** An owner with an integration of each agency. */
  async function open(script: readonly Turn[]): Promise<Place> {
    const { token, ownerId, integrationId } = await platform.client()
    const ids = new Map([['solo', integrationId]])
    for (const [agencyId, agency] of Object.entries(agencies()).slice(1)) {
      const integration = { agencyId, defaultAgent: agency.entryPoint.name }
      ids.set(agencyId, await platform.addIntegration(ownerId, integration))
    }
    platform.provider.script(script)
    const toolOf = (agency: string): string => `ask_${ids.get(agency)!.toLowerCase()}`
    const { url, provider } = platform
    return { url, provider, headers: { authorization: `Bearer ${token}` }, toolOf, keepsRuns: true }
  }

  const lastRequest = () => platform.provider.modelRequests.at(-1)!
  const kinds = (): string[] => lastRequest().items.map(({ type, role }: Json) => role ?? type)

  test.each(CONVERSATIONS)('$name', async ({ agency, script, answer, history }) => {
    const place = await open(script)

    const heard = await door.ask(place, agency, { text: 'Hello?' })

    expect(plain(heard.answer, answer)).toEqual(answer)
    expect(kinds()).toEqual(history)
    // A2A has no place for the usage.
    if (heard.tokens !== undefined) expect(heard.tokens).toBe(script.length * TOKENS_OF_REQUEST)
    expect(platform.provider.unused).toBe(0)
  })

  test('an image', async () => {
    const said = { text: 'What is it?', image: PNG }
    if (door.noImages !== undefined) {
      expect(await door.raw(await open([]), said)).toContain('invalid_request')
      return
    }

    const { answer } = await door.ask(await open([text('A dot.')]), 'solo', said)

    expect(answer).toBe('A dot.')
    expect(JSON.stringify(lastRequest().items)).toContain(dataUrl(PNG))
  })

  test('an approval', async () => {
    const call = toolCall('pay', { euros: 5 }, { callId: 'call_p' })
    if (!door.approve) {
      // The run waits, and its client reads where the decision is made.
      expect(await door.raw(await open([call]), { text: 'Pay.' })).toMatch(/\/v1\/runs\/run_\w+\/approvals/)
      return
    }

    const { answer } = await door.approve(await open([call, text('Paid.')]))

    expect(answer).toBe('Paid.')
    expect(kinds()).toEqual(['user', 'function_call', 'function_call_output'])
    expect(lastRequest().toolOutputs.map(({ output }) => output)).toEqual(['paid 5'])
  })

  test('an error: the same sentence, and nothing of the provider’s', async () => {
    const raw = await door.raw(await open([status(401)]), { text: 'Hello?' })

    expect(raw).toContain('The model provider did not accept the API key (HTTP 401).')
    expect(raw).not.toContain('sk-platform')
  })

  test('a cancel: the model is asked no more', async () => {
    const place = await open([])
    const { provider } = platform
    const [asked, aborted] = [provider.modelRequests.length, provider.aborted]
    provider.respond(() => textDeltas(['One ', hold(provider.gate())]))

    if (door.cancel) await door.cancel(place)
    else await hangUp(door, place)
    if (COMING_BACK.has(door.name)) await cancelRun(place)

    await provider.waitForAborts(aborted + 1)
    expect(provider.modelRequests).toHaveLength(asked + 1)
  })
})
