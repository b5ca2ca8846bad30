/**
 * A client of the hosted platform: a member with an allowance, a completion that is told apart from a lost one, its status.
 * Run: npm start in one terminal (it makes .bureau/credentials.json), npm run example -- 09 in another.
 */
import { readFileSync } from 'node:fs'
import { ApiErrorResponse, ChatStatus, CreateNewChatResponse, SseParser } from '@bureau/protocol'

const folder = process.env['BUREAU_DATA'] ?? '.bureau'
const { apiKey, apiIntegrationId } = JSON.parse(readFileSync(`${folder}/credentials.json`, 'utf8'))
const server = process.env['BUREAU_URL'] ?? 'http://127.0.0.1:8000'

function call(method: string, path: string, body?: object): Promise<Response> {
  const headers = { authorization: `Bearer ${apiKey}`, ...(body && { 'content-type': 'application/json' }) }
  return fetch(`${server}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) })
}

const integration = `/v1/integrations/${apiIntegrationId}`
const consumerId = `visitor-${Date.now()}`
await call('PATCH', integration, { memberAllowancesEnabled: true })
await call('POST', `${integration}/members`, { consumerId, allowance: { messages: 2 } })
const chat = await call('POST', '/create_new_chat', { apiIntegrationId })
const { chatId } = CreateNewChatResponse.parse(await chat.json())

/** The answer as it comes. When the connection is lost, the status tells what became of the request. */
async function complete(message: string, usageRequestId: string): Promise<void> {
  const completion = { apiIntegrationId, chatId, message, consumerId, usageRequestId }
  const response = await call('POST', '/get_completion_v2', completion)
  if (!response.ok) {
    const { code } = ApiErrorResponse.parse(await response.json())
    return console.log(
      `refused with ${response.status} ${code}, a run began: ${response.headers.get('x-agent-run-admitted')}`,
    )
  }
  const parser = new SseParser()
  for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
    for (const { event, data } of parser.push(text)) {
      const spoken = event === null ? JSON.parse(data).data : undefined
      if (spoken?.data?.type === 'response.output_text.delta' && spoken.callerAgent === null) {
        process.stdout.write(spoken.data.delta)
      }
    }
  }
  const query = new URLSearchParams({ apiIntegrationId, usageRequestId }).toString()
  const status = await call('GET', `/v1/chat_status?${query}`)
  const { run, recovery } = ChatStatus.parse(await status.json())
  console.log(`\n${run?.status}, ${run?.usage?.request_count} model requests, what to do: ${recovery.action}`)
}

for (const [n, message] of ['What is the weather in Paris?', 'Thank you', 'One more thing'].entries()) {
  await complete(message, `${consumerId}-${n}`)
}

await call('PATCH', integration, { memberAllowancesEnabled: false })
