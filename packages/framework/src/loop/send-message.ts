import { fieldsOf } from '@bureau/protocol'
import { z } from 'zod'
import type { Agency } from '../agency/agency.ts'
import type { Agent } from '../agency/agent.ts'
import { type AgentMessage, askAgent } from './ask-agent.ts'
import { Conversation } from './conversation.ts'
import { MESSAGE_PARAMETERS, type MessageTool } from '../agency/message-tool.ts'
import { type FunctionTool, functionTool } from '../agency/function-tool.ts'
import { functionSchema } from '../agency/tool-schema.ts'

type Tools = readonly FunctionTool[]

const made = new WeakMap<Agency, Map<string, Tools>>()

/** The tools with which an agent messages the agents that its flows allow; made once per agency and agent. */
export function sendMessageTools(agency: Agency, sender: Agent): Tools {
  const ofAgents = made.get(agency) ?? new Map<string, Tools>()
  made.set(agency, ofAgents)
  const known = ofAgents.get(sender.name)
  if (known) return known
  const tools = agency.messageToolsOf(sender.name).map((each) => makeTool(each, agency.recipientsOf(sender.name, each)))
  ofAgents.set(sender.name, tools)
  return tools
}

function makeTool(definition: MessageTool, recipients: readonly Agent[]): FunctionTool {
  const { name, description } = definition
  const names = recipients.map((agent) => agent.name)
  const roles = recipients.map((agent) => `- ${agent.name}: ${agent.description || 'no description'}`).join('\n')
  const { parameters, strict } = functionSchema(definition.parameters, {
    recipient_agent: { type: 'string', enum: names, description: MESSAGE_PARAMETERS.recipient_agent },
    message: { type: 'string', description: MESSAGE_PARAMETERS.message },
    additional_instructions: { type: 'string', description: MESSAGE_PARAMETERS.additional_instructions },
  })
  return functionTool({
    name,
    description: `${description} Recipients:\n${roles}`,
    parameters: { ...parameters, additionalProperties: false },
    strict,
    // Another process goes on with the conversation that the call has opened.
    repeatable: true,
    whenFailed: (error) =>
      error instanceof SyntaxError
        ? `Error: the arguments of ${name} are not valid JSON.`
        : 'Error: the message could not be delivered.',
    execute: async (input, { context }, { toolCall, signal }) => {
      const request = await readArguments(input, definition, recipients)
      if (typeof request === 'string') return request
      if (!(context instanceof Conversation) || !toolCall) throw new Error('a message was sent outside a conversation')
      return askAgent(context, { ...request, signal, callId: toolCall.callId })
    },
  })
}

/** The arguments, or the sentence that tells the model what is wrong with them. */
async function readArguments(
  input: unknown,
  { name: toolName, parameters }: MessageTool,
  recipients: readonly Agent[],
): Promise<Omit<AgentMessage, 'callId'> | string> {
  const { recipient_agent: name, message, additional_instructions: extra, ...more } = fieldsOf(input)
  if (typeof name !== 'string' || name === '') return 'Error: recipient_agent is missing.'
  if (typeof message !== 'string' || message === '') return 'Error: message is missing.'
  const recipient = findRecipient(name, recipients)
  if (!recipient) {
    return `Error: there is no recipient "${name}". Allowed: ${recipients.map((agent) => agent.name).join(', ')}.`
  }
  const parsed = await parameters.safeParseAsync(more)
  if (!parsed.success) {
    return `Error: the arguments of ${toolName} are not valid.\n${z.prettifyError(parsed.error)}`
  }
  return {
    tool: toolName,
    recipient,
    message: withParameters(message, parsed.data),
    additionalInstructions: typeof extra === 'string' ? extra : '',
  }
}

/** Models spell names in their own way; an exact match wins. */
function findRecipient(name: string, recipients: readonly Agent[]): Agent | undefined {
  const exact = recipients.find((agent) => agent.name === name)
  return exact ?? recipients.find((agent) => agent.name.toLowerCase() === name.toLowerCase())
}

function withParameters(message: string, parameters: Readonly<Record<string, unknown>>): string {
  const lines = Object.entries(parameters).flatMap(([name, value]) => {
    if (value === undefined || value === null) return []
    return [`${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`]
  })
  return [message, ...(lines.length > 0 ? ['', ...lines] : [])].join('\n')
}
