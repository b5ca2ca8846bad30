/**
 * A client of the server of example 06: reads a stream, sends the history with the next message, cancels a stream.
 * Run: npm run example -- 07, while 06 runs.
 */
import { type Message, SseParser } from '@bureau/protocol'

const server = process.env['BUREAU_URL'] ?? 'http://127.0.0.1:8000'
const token = process.env['EXAMPLE_TOKEN'] ?? 'change-me'

function post(route: string, body: object): Promise<Response> {
  return fetch(`${server}/travel/${route}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}

type Result = { new_messages: Message[]; cancelled?: boolean }

/** Prints the answer as it comes. `onText` is called with the run's id at every piece of text. */
async function ask(message: string, history: Message[], onText?: (runId: string) => void): Promise<Result> {
  const response = await post('get_response_stream', { message, chat_history: history })
  const parser = new SseParser()
  let runId = ''
  for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
    for (const { event, data } of parser.push(text)) {
      if (event === 'end') continue
      const frame = JSON.parse(data)
      if (event === 'meta') runId = frame.run_id
      if (event === 'messages') return frame
      if (frame.data?.data?.type !== 'response.output_text.delta' || frame.data.callerAgent !== null) continue
      process.stdout.write(frame.data.data.delta)
      onText?.(runId)
    }
  }
  throw new Error(`the stream broke off: ${response.status}`)
}

const first = await ask('Ask the guide: what time is it in Paris?', [])
console.log(`\n${first.new_messages.length} new messages`)

const second = await ask('Thank you', first.new_messages)
console.log(`\n${second.new_messages.length} new messages`)

let cancelling: Promise<Response> | undefined
const third = await ask('Tell a long story', [...first.new_messages, ...second.new_messages], (runId) => {
  cancelling ??= post('cancel_response_stream', { run_id: runId, cancel_mode: 'immediate' })
})
await cancelling
console.log(`\ncancelled: ${third.cancelled}`)
