import { expect, onTestFinished, test, vi } from 'vitest'
import { startOAuthSetUp } from './support/oauth-set-up.ts'

test('while a sign-in is pending, a comment keeps the stream open every 15 seconds', async () => {
  const { server } = await startOAuthSetUp()
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const response = await fetch(`${server.url}/solo/get_response_stream`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-test-user': 'User ada' },
    body: JSON.stringify({ message: 'read my notes' }),
  })
  const chunks = response.body!.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]()
  let text = ''
  const readUntil = async (isEnough: () => boolean): Promise<void> => {
    while (!isEnough()) text += (await chunks.next()).value
  }
  const comments = (): number => (text.match(/^: keepalive \d+$/gm) ?? []).length
  await readUntil(() => text.includes('"status":"pending"'))

  for (const expected of [1, 2]) {
    await vi.advanceTimersByTimeAsync(14_000)
    expect(comments()).toBe(expected - 1)
    await vi.advanceTimersByTimeAsync(2_000)
    await readUntil(() => comments() === expected)
  }
})
