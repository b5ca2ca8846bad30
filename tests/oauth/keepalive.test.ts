import { expect, test } from 'vitest'
import { startOAuthSetUp } from './support/oauth-set-up.ts'

test('while a sign-in is pending, a comment keeps the stream open every 15 seconds', async () => {
  const { server } = await startOAuthSetUp()
  const startedAt = performance.now()
  const response = await fetch(`${server.url}/solo/get_response_stream`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-test-user': 'User ada' },
    body: JSON.stringify({ message: 'read my notes' }),
  })
  let text = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    if ((text.match(/^: keepalive \d+$/gm) ?? []).length === 2) break
  }
  expect(text).toContain('"status":"pending"')
  const seconds = (performance.now() - startedAt) / 1000
  expect(seconds).toBeGreaterThan(29)
  expect(seconds).toBeLessThan(34)
})
