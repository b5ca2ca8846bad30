import path from 'node:path'
import { Agency, Agent, tool } from '@bureau/framework'
import type { Browser, Page } from 'playwright-core'
import { rolldown } from 'rolldown'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { startHttpServer } from '../support/http-server.ts'
import { canBrowse, launchChromium } from '../support/chromium.ts'
import { hold, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import type { TestClient } from './support/test-client.ts'
import { servePlatform } from './support/test-platform.ts'

const carriedOut: number[] = []
const order = tool({
  name: 'order',
  description: 'Orders things.',
  parameters: z.object({ pieces: z.number() }),
  needsApproval: { when: true, edit: true },
  execute: ({ pieces }) => `Ordered: ${carriedOut.push(pieces)}`,
})
const refund = tool({
  name: 'refund',
  description: 'Pays back.',
  parameters: z.object({}),
  needsApproval: true,
  execute: () => 'paid',
})
const shop = new Agency({
  name: 'Shop',
  entryPoint: new Agent({ name: 'CEO', instructions: 'Help.', model: 'gpt-test', tools: [order, refund] }),
})

/** The whole page: it knows its address, its integration and a consumer token, and uses the client as it is published. */
const PAGE_SCRIPT = `import { createClient, platformApi } from '@bureau/client'
const options = { ...JSON.parse(decodeURIComponent(location.hash.slice(1))), retryDelaysMs: [] }
const client = createClient(options)
const api = platformApi(options)
const shown = document.querySelector('#answer')
const why = (error) => [error.status ?? null, error.code]
let last
async function follow(run) {
  last = run
  for await (const part of run.text()) shown.textContent += part
  return (await run.result).status
}
const ask = (method, where, body) => fetch(options.url + where, {
  method,
  headers: { authorization: 'Bearer ' + options.token, ...(body && { 'content-type': 'application/json' }) },
  ...(body && { body: JSON.stringify(body) }),
}).then(async (answer) => [answer.status, (await answer.json()).code ?? null], () => 'unreadable')
globalThis.app = {
  say: (message, chat, body) => follow(client.stream({ message, chat, body })).catch(why),
  resume: async (chat) => follow(await client.attach({ chat })).catch(why),
  approve: async (callId, changed) => last.approve(callId, changed && { arguments: changed }).then((next) => next && follow(next), why),
  chats: async () => (await api.chats.list()).data.map(({ chatId }) => chatId),
  upload: (name, text) => api.files.upload(new File([text], name)).catch(why),
  ask,
}`

async function servePage(): Promise<string> {
  const entry = path.resolve(import.meta.dirname, 'page.js')
  const build = await rolldown({
    input: entry,
    platform: 'browser',
    resolve: { conditionNames: ['@bureau/source', 'browser', 'import', 'module', 'default'] },
    plugins: [
      {
        name: 'page',
        resolveId: (id) => (id === entry ? id : null),
        load: (id) => (id === entry ? PAGE_SCRIPT : null),
      },
    ],
  })
  const { output } = await build.generate()
  await build.close()
  const html = '<!doctype html><meta charset="utf-8"><title>Shop</title><p id="answer"></p>'
  return startHttpServer((request, answer) => {
    const isScript = request.url === '/page.js'
    answer
      .setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
      .end(isScript ? output[0].code : `${html}<script type="module" src="/page.js"></script>`)
  })
}

describe.skipIf(!canBrowse)('a page that holds nothing but a consumer token', () => {
  const platform = servePlatform('pglite', { agencies: { shop } })
  let browser: Browser
  beforeAll(async () => void (browser = await launchChromium()))
  afterAll(() => browser?.close())

  /** The page in the browser of a consumer, and a way to call its functions. */
  async function open(client: TestClient, origin: string, consumerId = 'ada') {
    const { apiIntegrationId, url } = { apiIntegrationId: client.integrationId, url: platform.url }
    const scopes = ['chat', 'read', 'upload', 'approve']
    const { body } = await client.post('/v1/consumer_tokens', { apiIntegrationId, consumerId, scopes })
    const context = await browser.newContext()
    closeAfterTest(() => context.close())
    const page: Page = await context.newPage()
    const hash = encodeURIComponent(JSON.stringify({ url, integration: apiIntegrationId, token: body.token }))
    await page.goto(`${origin}/#${hash}`)
    const call = <T>(name: string, ...args: unknown[]): Promise<T> =>
      page.evaluate(`app.${name}(...${JSON.stringify(args)})`) as Promise<T>
    return { page, call }
  }

  async function newShop() {
    const origin = await servePage()
    const client = await platform.client({ allowedOrigins: [origin], consumerApprovals: ['order'] })
    // The list of origins is known to every process within five seconds.
    const isKnown = async (): Promise<boolean> => {
      const headers = { origin, 'access-control-request-method': 'GET' }
      const { headers: answered } = await fetch(`${platform.url}/v1/chats`, { method: 'OPTIONS', headers })
      return answered.get('access-control-allow-origin') === origin
    }
    await expect.poll(isKnown).toBe(true)
    const { body } = await (
      await tokenOf(client, 'ada')
    ).post('/create_new_chat', {
      apiIntegrationId: client.integrationId,
    })
    return { origin, client, chat: body.chatId as string }
  }

  const tokenOf = async (client: TestClient, consumerId: string): Promise<TestClient> => {
    const { body } = await client.post('/v1/consumer_tokens', { apiIntegrationId: client.integrationId, consumerId })
    return client.with({ token: body.token })
  }

  test('chats, is reloaded in the middle of an answer, and goes on with it', async () => {
    const { origin, client, chat } = await newShop()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['Half an ', hold(gate), 'answer.'])])
    const { page, call } = await open(client, origin)

    call('say', 'Hello', chat).catch(() => {}) // the reload ends it
    await page.getByText('Half an').waitFor()
    await page.reload()
    const resumed = call('resume', chat)
    await page.getByText('Half an').waitFor()
    gate.release()

    expect(await resumed).toBe('completed')
    expect(await page.locator('#answer').innerText()).toBe('Half an answer.')
    expect(platform.provider.modelRequests).toHaveLength(1)
    expect(await call('chats')).toEqual([chat])
  })

  test('decides about its own calls, with other arguments, where the integration allows it', async () => {
    const { origin, client, chat } = await newShop()
    platform.provider.script([
      [toolCall('order', { pieces: 100 }, { callId: 'call_o' })],
      text('It is ordered.'),
      [toolCall('refund', {}, { callId: 'call_r' })],
    ])
    const { page, call } = await open(client, origin)

    const asked = await call('say', 'Order 100', chat)
    const approved = await call('approve', 'call_o', { pieces: 3 })
    const protectedCall = await call('say', 'Refund it', chat)
    const refused = await call('approve', 'call_r')

    expect([asked, approved]).toEqual(['waiting', 'completed'])
    expect(await page.locator('#answer').innerText()).toContain('It is ordered.')
    expect(carriedOut).toEqual([3])
    expect([protectedCall, refused]).toEqual(['waiting', [403, 'insufficient_scope']])
  })

  test('uploads a file and sends it with a message', async () => {
    const { origin, client, chat } = await newShop()
    platform.provider.script([text('Got it.')])
    const { call } = await open(client, origin)

    const stored = await call<{ name: string; path: string }>('upload', 'list.txt', 'one, two')
    const status = await call('say', 'Read this', chat, { sandboxFiles: [stored] })

    expect(stored).toEqual({ name: 'list.txt', path: expect.stringContaining('/app/mnt/uploads/') })
    expect(status).toBe('completed')
  })

  test('reaches nothing of others and nothing of the owner’s, and from another origin nothing at all', async () => {
    const { origin, client, chat } = await newShop()
    platform.provider.script([[toolCall('order', { pieces: 1 }, { callId: 'call_o' })]])
    const ada = await tokenOf(client, 'ada')
    const { runId } = await (await ada.complete({ message: 'Order', chatId: chat })).all()
    const bob = await open(client, origin, 'bob')
    const elsewhere = await open(client, await servePage())

    expect(await bob.call('chats')).toEqual([])
    for (const [method, where, body, refusal] of [
      ['GET', `/v1/chats/${chat}/messages`, null, [404, 'chat_not_found']],
      ['GET', `/v1/runs/${runId}`, null, [404, 'run_not_found']],
      ['GET', `/v1/runs/${runId}/approvals`, null, [404, 'run_not_found']],
      ['POST', `/v1/runs/${runId}/approvals`, [{ callId: 'call_o', approve: true }], [404, 'run_not_found']],
      ['GET', '/v1/integrations', null, [403, 'insufficient_scope']],
      ['GET', '/v1/runs', null, [403, 'insufficient_scope']],
      [
        'POST',
        '/v1/consumer_tokens',
        { apiIntegrationId: client.integrationId, consumerId: 'ada' },
        [403, 'insufficient_scope'],
      ],
    ] as const) {
      expect([where, await bob.call('ask', method, where, body)]).toEqual([where, refusal])
    }
    expect(await elsewhere.call('ask', 'GET', '/v1/chats')).toBe('unreadable')
    expect(await elsewhere.call('say', 'Hello', chat)).toEqual([null, 'connection_lost'])
    expect((await client.get(`/v1/runs/${runId}`)).body.status).toBe('waiting')
  })
})
