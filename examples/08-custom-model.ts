/**
 * A model of one's own: an object with a name and `request()`. What it says is written with `ResponseEventWriter`; this one
 * counts what it is given.
 * Run: npm run example -- 08
 */
import { Agency, Agent, ask, type ModelTransport, ResponseEventWriter } from '@bureau/framework'

const counting: ModelTransport = {
  name: 'counting',
  async request({ input, tools = [] }, { observer }) {
    const answer = new ResponseEventWriter(observer, { model: 'counting' })
    answer.text(`I have read ${input.length} items and may use ${tools.length} tools.`)
    answer.complete({
      input_tokens: input.length,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 11,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input.length + 11,
    })
  },
}

const clerk = new Agent({ name: 'Clerk', instructions: 'Count.', model: counting })
const agency = new Agency({ entryPoint: clerk })

const first = await ask(agency, 'Hello')
const second = await ask(agency, 'And now?', { history: first.new_messages })

for (const { output, usage } of [first, second]) console.log(`${String(output)} ${usage?.total_tokens} tokens`)
