/**
 * A concierge who asks two specialists, hands complaints over to support, and converts money itself.
 * Run: npm start
 */
import { Agency, Agent, tool, Tool } from '@bureau/framework'
import { z } from 'zod'

const getWeather = tool({
  name: 'get_weather',
  description: 'Tells the weather of a city.',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => `It is 18 °C and sunny in ${city}.`,
})

class ConvertCurrency extends Tool {
  description = 'Converts an amount of US dollars into euros.'
  parameters = z.object({ amount: z.number() })
  run({ amount }: { amount: number }): string {
    return `${amount} US dollars are ${(amount * 0.92).toFixed(2)} euros.`
  }
}

const weather = new Agent({
  name: 'Weather',
  description: 'Knows the weather and what to wear.',
  instructions: 'Answer questions about the weather. Always look it up first.',
  tools: [getWeather],
})

const planner = new Agent({
  name: 'Planner',
  description: 'Plans a trip: sights, museums, restaurants.',
  instructions: 'Suggest a plan for one day, in three short lines.',
})

const support = new Agent({
  name: 'Support',
  description: 'Takes over complaints and refunds.',
  instructions: 'Apologise once, then solve the problem of the customer.',
})

const concierge = new Agent({
  name: 'Concierge',
  description: 'Welcomes travellers and finds them the right specialist.',
  instructions: 'Help travellers. Ask the specialists by message; hand complaints over to Support.',
  tools: [ConvertCurrency],
  handoffs: [support],
  conversationStarters: ['What is the weather in Paris?', 'How much is 20 US dollars in euros?'],
})

export const demo = new Agency({
  name: 'Demo',
  entryPoint: concierge,
  flows: [
    [concierge, weather],
    [concierge, planner],
  ],
})
