import { Agency, Agent } from '@bureau/framework'

/** Needs ANTHROPIC_API_KEY, for one of its agents. */
const writer = new Agent({ name: 'Writer', instructions: 'Write.', model: 'thirdparty/anthropic/claude-x' })
const reader = new Agent({ name: 'Reader', instructions: 'Read.' })
export const desk = new Agency({ entryPoint: [reader, writer] })
