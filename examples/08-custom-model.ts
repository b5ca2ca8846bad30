/**
 * A model of one's own: any object with the two methods of the agents SDK's `Model`. This one counts what it is given.
 * Run: npm run example -- 08
 */
import { Agency, Agent, ask } from '@bureau/framework'
import { type Model, type ModelRequest, type ModelResponse, type StreamEvent, Usage } from '@openai/agents-core'

class CountingModel implements Model {
  async getResponse({ input, tools }: ModelRequest): Promise<ModelResponse> {
    const items = typeof input === 'string' ? 1 : input.length
    const text = `I have read ${items} items and may use ${tools.length} tools.`
    return {
      usage: new Usage({ inputTokens: items, outputTokens: 11, totalTokens: items + 11 }),
      output: [{ type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text }] }],
    }
  }

  /** A model that cannot stream says so: it is then asked for the whole answer. */
  getStreamedResponse(): AsyncIterable<StreamEvent> {
    throw new Error('streaming is not supported')
  }
}

const clerk = new Agent({ name: 'Clerk', instructions: 'Count.', model: new CountingModel() })
const agency = new Agency({ entryPoint: clerk })

const first = await ask(agency, 'Hello')
const second = await ask(agency, 'And now?', { history: first.new_messages })

for (const { output, usage } of [first, second]) console.log(`${String(output)} ${usage?.total_tokens} tokens`)
