import { Agency, Agent } from '@bureau/framework'

const assistant = new Agent({
  name: 'Assistant',
  instructions: 'Answer in a few friendly sentences. Say so when you do not know.',
})

/** Served under the name of this export: POST /support/get_response_stream */
export const support = new Agency({ name: 'Support', entryPoint: assistant })
