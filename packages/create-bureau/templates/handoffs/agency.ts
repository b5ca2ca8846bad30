import { Agency, Agent } from '@bureau/framework'

const research = new Agent({
  name: 'Research',
  description: 'Finds out facts.',
  instructions: 'Answer with facts, in three short lines.',
})

const billing = new Agent({
  name: 'Billing',
  description: 'Takes over questions about invoices and refunds.',
  instructions: 'Apologise once, then solve the problem of the customer.',
})

const reception = new Agent({
  name: 'Reception',
  instructions: 'Welcome customers. Ask Research by message; hand questions about money over to Billing.',
  handoffs: [billing],
  conversationStarters: ['I want a refund', 'How tall is the Eiffel Tower?'],
})

/** Served under the name of this export: POST /support/get_response_stream */
export const support = new Agency({
  name: 'Support',
  entryPoint: reception,
  // Reception may send messages to Research, and gets its answers.
  flows: [[reception, research]],
})
