import { Agency, Agent, tool } from '@bureau/framework'
import { z } from 'zod'

export const getWeather = tool({
  name: 'get_weather',
  description: 'Tells the weather in a city.',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => `Mild and a little cloudy in ${city}.`,
})

/** The agency of both servers under test: one agent with one tool. */
export const demo = new Agency({
  name: 'demo',
  entryPoint: new Agent({
    name: 'Assistant',
    instructions: 'You are a helpful assistant. Answer briefly.',
    model: 'gpt-5-mini',
    tools: [getWeather],
  }),
})
