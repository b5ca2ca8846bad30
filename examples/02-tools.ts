/**
 * Tools in two styles, and context that tools can read and the model never sees.
 * Run: npm run example -- 02
 */
import { Agency, Agent, ask, tool, Tool } from '@bureau/framework'
import { z } from 'zod'

const orders = [
  { number: 7, customer: 'ada', item: 'a lamp' },
  { number: 8, customer: 'grace', item: 'a desk' },
]

const findOrder = tool({
  name: 'find_order',
  description: 'Finds an order of the customer by its number.',
  parameters: z.object({ number: z.number().int() }),
  execute: ({ number }, { userContext }) => {
    const order = orders.find((each) => each.number === number && each.customer === userContext['customer'])
    return order ? `Order ${number} is ${order.item}.` : `This customer has no order ${number}.`
  },
})

class CountLetters extends Tool {
  description = 'Counts the letters of a text.'
  parameters = z.object({ text: z.string() })
  run({ text }: { text: string }): string {
    return `It has ${text.match(/\p{L}/gu)?.length ?? 0} letters.`
  }
}

const clerk = new Agent({
  name: 'Clerk',
  instructions: 'Answer questions about orders. Always look the order up.',
  tools: [findOrder, CountLetters],
})
const shop = new Agency({ entryPoint: clerk })

const apiKey = process.env['OPENAI_API_KEY'] // Without one, the built-in demo model answers.
for (const customer of ['ada', 'grace']) {
  const { output } = await ask(shop, 'What is in order 7?', { apiKey, userContext: { customer } })
  console.log(`${customer}: ${String(output)}`)
}

const { output, usage } = await ask(shop, 'Count the letters: Bureau', { apiKey })
console.log(output)
console.log(`${usage?.request_count} model requests`)
