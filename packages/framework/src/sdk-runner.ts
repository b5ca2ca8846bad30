import { Runner } from '#agents-core'
import { conversationOf } from './conversation-agent.ts'
import { toolServerOf } from './mcp/server-tools.ts'
import { SDK_TOOL_FAILURE } from './tool.ts'

const UNKNOWN_FAILURE = new Error('The tool has thrown an error, which the agents SDK does not pass on.')

/** The agents SDK's loop, for all runs: whatever belongs to one is found through its conversation. */
export const runner = new Runner({
  modelProvider: { getModel: noModelByName },
  tracingDisabled: true,
  traceIncludeSensitiveData: false,
  toolNotFoundBehavior: 'return_error_to_model',
})
runner.on('agent_tool_start', (...[context, { name }, { name: tool }, { toolCall }]) => {
  const content = (): unknown => ('arguments' in toolCall ? toolCall.arguments : null)
  if ('callId' in toolCall) conversationOf(context).trace?.toolStarted(name, { tool, callId: toolCall.callId, content })
})
runner.on('agent_tool_end', (...[context, { name }, tool, result, { toolCall }]) => {
  if (!('callId' in toolCall)) return
  const conversation = conversationOf(context)
  conversation.trace?.toolEnded(name, toolCall.callId, result)
  // Tools made by the SDK's own `tool()` return this text and keep what was thrown.
  if (result === SDK_TOOL_FAILURE && toolServerOf(tool) === undefined)
    conversation.toolFailed(tool.name, UNKNOWN_FAILURE)
  conversation.toolReturned(toolCall.callId, result)
})
runner.on('agent_handoff', (context, from, to) => {
  const conversation = conversationOf(context)
  const reminder = conversation.run.agency.agents.get(from.name)?.handoffReminder
  conversation.handedOver(from.name, to.name, reminder)
})

function noModelByName(name?: string): never {
  throw new Error(`no model is looked up by name in a run (${name ?? ''})`)
}
