import { Agency, Agent, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { canBrowse, consoleBrowser } from '../../../../tests/console/support/console-page.ts'
import { soloAgency, startTestServer } from '../../../../tests/support/test-server.ts'
import { call, speech } from './fake-realtime-provider.test-support.ts'
import { type RealtimeServer, startRealtimeServer } from './realtime.test-support.ts'

const findOrder = tool({
  name: 'find_order',
  description: 'Finds an order.',
  parameters: z.object({ number: z.number() }),
  execute: ({ number }) => `Order ${number} left this morning.`,
})

const desk = (): Record<string, Agency> => ({
  desk: new Agency({
    entryPoint: new Agent({ name: 'Desk', instructions: 'x', model: 'gpt-test', tools: [findOrder] }),
  }),
})

/** A tenth of a second of silence. */
const SILENCE = Buffer.alloc(4_800)

/** The provider's side, once the microphone is heard there. */
async function hearing({ provider }: RealtimeServer) {
  const session = await provider.nextSession()
  const { audio } = await session.next('input_audio_buffer.append')
  return { session, bytes: Buffer.from(audio, 'base64').length }
}

describe.skipIf(!canBrowse)('talking in the playground', () => {
  const open = consoleBrowser(['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'])
  const openWithout = consoleBrowser()

  test('sends the microphone, writes down what both say and which tools are called, and stops', async () => {
    const server = await startRealtimeServer({ agencies: desk(), token: 'secret' })
    server.provider.script([
      [call('find_order', { number: 7 }, 'call_1')],
      [speech('It left this morning.', [SILENCE])],
    ])
    const { page, complaints, barriers } = await open(server.url, { signedIn: { server: 'secret' }, at: '/play/desk' })

    await page.getByRole('button', { name: 'Talk' }).click()
    const { session, bytes } = await hearing(server)
    await page.getByText('Listening').waitFor()
    session.transcribe(session.detectTurn(), 'Where is order 7?')
    await page.getByText('Where is order 7?', { exact: true }).last().waitFor()
    await page.getByText('It left this morning.', { exact: true }).waitFor()

    expect(bytes).toBe(4_800)
    expect(await page.getByText('find_order').count()).toBe(1)
    expect(await barriers()).toEqual([])
    await page.getByRole('button', { name: 'Stop talking' }).click()
    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await session.next('close')
    await page.reload()
    await page.getByText('It left this morning.', { exact: true }).waitFor()
    expect(complaints).toEqual([])
  })

  test('leaves the microphone alone when it is allowed after somebody has stopped', async () => {
    const server = await startRealtimeServer({ agencies: desk() })
    const { page } = await open(server.url, { at: '/play/desk' })
    await page.getByRole('button', { name: 'Talk' }).waitFor()
    await page.evaluate(`{
      const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices)
      navigator.mediaDevices.getUserMedia = async (wanted) => {
        await new Promise((resolve) => (window.allow = resolve))
        return (window.stream = await ask(wanted))
      }
    }`)

    await page.getByRole('button', { name: 'Talk' }).click()
    await page.getByRole('button', { name: 'Stop talking' }).click()
    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await page.evaluate('allow()')
    const isOff = `window.stream?.getTracks().every(({ readyState }) => readyState === 'ended')`
    await expect.poll(() => page.evaluate(isOff)).toBe(true)
  })

  test('says when the server cannot talk to its provider, and goes back to writing', async () => {
    const server = await startRealtimeServer({ agencies: desk() })
    server.provider.refuseWith = 401
    const { page } = await open(server.url, { at: '/play/desk' })

    await page.getByRole('button', { name: 'Talk' }).click()
    await page.getByRole('alert').getByText('The server could not talk to its provider of voices.').waitFor()
    await page.getByRole('button', { name: 'Back to writing' }).click()

    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    expect(await page.getByRole('alert').count()).toBe(0)
  })

  test('says how to allow the microphone when the browser does not', async () => {
    const server = await startRealtimeServer({ agencies: desk() })
    const { page } = await openWithout(server.url, { at: '/play/desk' })

    await page.getByRole('button', { name: 'Talk' }).click()

    const problem = await page.getByRole('alert').innerText()
    expect(problem).toMatch(/does not let this page use the microphone|There is no microphone/)
    expect(server.provider.sessions).toEqual([])
  })

  test('is not offered by a server without realtime', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page } = await open(server.url, { at: '/play/solo' })

    await page.getByRole('textbox', { name: 'Message' }).waitFor()

    expect(await page.getByRole('button', { name: 'Talk' }).count()).toBe(0)
  })
})
