import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { startHttpServer } from '../../../tests/support/http-server.ts'
import { createClient } from './client.ts'
import { SOON } from './scripted-server.test-support.ts'

const HISTORY = JSON.stringify({ data: [{ chatId: 'chat_1' }], nextCursor: null })

/** A server that answers as it is written down, in turn, and then with a list of chats. */
async function openClient(...answers: ((response: ServerResponse) => void)[]) {
  const url = await startHttpServer((_request, response) => {
    const answer = answers.shift() ?? (() => response.end(HISTORY))
    answer(response)
  })
  return createClient({ url, integration: 'int-1', retryDelaysMs: SOON })
}

test('an answer that breaks off is asked for again', async () => {
  const cut = (response: ServerResponse): void => {
    response.writeHead(200, { 'content-length': HISTORY.length })
    response.write(HISTORY.slice(0, 9), () => response.destroy())
  }
  const client = await openClient(cut, cut)

  expect((await client.history('mine')).entries).toHaveLength(1)
})

test('an answer of something else at the address is an error of the client', async () => {
  const client = await openClient((response) => void response.end('<html>Welcome to our network</html>'))

  await expect(client.history('mine')).rejects.toMatchObject({ name: 'BureauError', code: 'not_a_stream', status: 200 })
})

test('what is undefined, as options of a page that are left out, is as if it were absent', async () => {
  const { promise: sent, resolve } = Promise.withResolvers<unknown>()
  const left = {
    token: undefined,
    headers: undefined,
    resume: undefined,
    histories: undefined,
    storage: undefined,
    silenceMs: undefined,
  }
  const refusing: typeof fetch = async (_url, init) => {
    resolve(JSON.parse(init?.body as string))
    return Response.json({ error: 'No.' }, { status: 403 })
  }
  const client = createClient({ url: 'http://agency.test', retryDelaysMs: undefined, fetch: refusing, ...left })
  const absent = { chat: undefined, agent: undefined, context: undefined, request: undefined, body: undefined }
  const { result } = client.stream({ message: 'Hi', signal: undefined, ...absent })

  await expect(result).rejects.toMatchObject({ code: 'refused' })
  expect(await sent).toStrictEqual({ message: 'Hi', chat_history: [] })
})
