import { expect, test } from 'vitest'
import { memoryStorage } from '../../../tests/support/broken-connections.ts'
import { hold, text, textDeltas } from '../../../tests/support/fake-provider.ts'
import { soloAgency, startTestServer } from '../../../tests/support/test-server.ts'
import { createClient } from './client.ts'
import { historiesIn } from './run-store.ts'

/** A page that sleeps: what has begun to arrive goes on when it is awake again. */
function sleepyFetch(): { readonly fetch: typeof fetch; readonly wake: () => void } {
  const { promise: awake, resolve: wake } = Promise.withResolvers<void>()
  const sleepy: typeof fetch = async (input, init) => {
    const response = await fetch(input, init)
    let hasBegun = false
    const read = new TransformStream<Uint8Array, Uint8Array>({
      transform: async (chunk, controller) => {
        if (hasBegun) await awake
        hasBegun = true
        controller.enqueue(chunk)
      },
      flush: () => awake,
    })
    return new Response(response.body!.pipeThrough(read), response)
  }
  return { fetch: sleepy, wake }
}

/** Pages of one browser: what it stores is shared. */
async function openBrowser() {
  const { url, provider } = await startTestServer({ agencies: soloAgency() })
  const storage = memoryStorage()
  const histories = historiesIn(storage)
  const open = (fetchIt = fetch) =>
    createClient({ url: `${url}/solo`, resume: true, storage, histories, fetch: fetchIt })
  const said = (): string[] =>
    (histories.get('c') ?? []).map(({ content }) => {
      return typeof content === 'string' ? content : (content as [{ text: string }])[0].text
    })
  return { provider, open, said }
}

test.each(['sent', 'attached'])('the page that %s sleeps, and the chat is as the other page left it', async (kind) => {
  const { provider, open, said } = await openBrowser()
  const gate = provider.gate()
  provider.script([textDeltas(['One', hold(gate), '.']), text('Two.')])
  const sleepy = sleepyFetch()
  const [sender, other] = kind === 'sent' ? [open(sleepy.fetch), open()] : [open(), open(sleepy.fetch)]
  const sent = sender.stream({ message: 'A', chat: 'c' })
  await sent.started
  const followed = (await other.attach({ chat: 'c' }))!
  const [asleep, awake, page] = kind === 'sent' ? [sent, followed, other] : [followed, sent, sender]
  gate.release()
  await awake.result
  await page.stream({ message: 'B', chat: 'c' }).result
  const before = said()
  sleepy.wake()
  await asleep.result

  expect(before).toEqual(['A', 'One.', 'B', 'Two.'])
  expect(said()).toEqual(before)
})

test('a message that is refused in one page leaves what another page is sending', async () => {
  const storage = memoryStorage()
  const open = (fetchIt: typeof fetch) =>
    createClient({ url: 'http://agency.test', resume: true, storage, fetch: fetchIt })
  const refused = open(async () => Response.json({ error: 'No.' }, { status: 422 }))
  const sending = open(() => new Promise(() => {}))
  const first = refused.stream({ message: 'A', chat: 'c' })
  sending.stream({ message: 'B', chat: 'c' })
  await expect(first.result).rejects.toMatchObject({ status: 422 })

  expect(sending.unanswered('c')).toMatchObject({ message: 'B' })
})

test('what one page is answered is found after a reload, though a message of another page was refused meanwhile', async () => {
  const { provider, open } = await openBrowser()
  const gate = provider.gate()
  provider.script([textDeltas(['One', hold(gate), '.'])])
  const sent = open().stream({ message: 'A', chat: 'c' })
  await sent.started
  sent.detach()
  const refused = open().stream({ message: 'B', chat: 'c', agent: 'Nobody' })
  await expect(refused.result).rejects.toMatchObject({ status: 422 })

  const found = await open().attach({ chat: 'c' })
  gate.release()
  expect(found?.message).toBe('A')
  expect((await found?.result)?.text).toBe('One.')
})
