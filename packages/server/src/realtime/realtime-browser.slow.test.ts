import { Agency, Agent } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { canBrowse, launchChromium } from '../../../../tests/support/chromium.ts'
import { closeAfterTest } from '../../../../tests/support/test-server.ts'
import { speech } from './fake-realtime-provider.test-support.ts'
import { startRealtimeServer } from './realtime.test-support.ts'

/** What a page does: connects with a credential, asks for an answer, and collects messages until the audio has ended. */
const CONVERSE = `async ({ url, protocols }) => {
  const socket = new WebSocket(url, protocols)
  const types = []
  return await new Promise((resolve, reject) => {
    socket.onopen = () => socket.send(JSON.stringify({ type: 'response.create' }))
    socket.onerror = () => reject(new Error('refused'))
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data)
      types.push(message.type)
      if (message.type === 'agent_end') resolve({ types, protocol: socket.protocol })
    }
  })
}`

describe.skipIf(!canBrowse)('a real browser', () => {
  test('connects with a ticket as a protocol, hears the agent, and cannot use the ticket twice', async () => {
    const agency = new Agency({ entryPoint: new Agent({ name: 'Solo', instructions: 'x' }) })
    const server = await startRealtimeServer({ agencies: { shop: agency }, token: 'secret' })
    server.provider.script([[speech('Hello')]])
    const browser = await launchChromium()
    closeAfterTest(() => browser.close())
    const page = await browser.newPage()
    await page.goto(`${server.url}/healthz`)
    const { body } = await server.post('/shop/realtime_ticket', { authorization: 'Bearer secret' })
    const connection = { url: `${server.url.replace('http', 'ws')}/shop/realtime`, protocols: body.protocols }
    const converse = `(${CONVERSE})(${JSON.stringify(connection)})`

    const heard = (await page.evaluate(converse)) as { types: string[]; protocol: string }

    expect(heard.protocol).toBe('bureau.realtime')
    expect(heard.types).toEqual(expect.arrayContaining(['agent_start', 'audio', 'audio_end', 'history_updated']))
    await expect(page.evaluate(converse)).rejects.toThrow('refused')
  })
})
