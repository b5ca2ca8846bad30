import { ConfigError } from '@bureau/protocol'
import { type OptionChecks, readOptions } from '../options.ts'
import { z } from 'zod'
import { TOOL_NAME } from './tool.ts'
import { unsendable } from './tool-schema.ts'

export type MessageToolOptions = {
  /** Default `send_message`. */
  readonly name?: string
  /** What the tool is for; the recipients and what they do are added. */
  readonly description?: string
  /**
   * What the sender has to say besides the message. The model's input is checked; the recipient reads it below the
   * message, one member a line.
   */
  readonly parameters?: z.ZodObject
}

const MessageToolChecks = z.strictObject({
  name: z.string().optional(),
  description: z.string().optional(),
  parameters: z.unknown().optional(),
} satisfies OptionChecks<MessageToolOptions>)

/** How an agent messages the recipients of some of its flows: the third member of a flow. */
export type MessageTool = {
  readonly name: string
  readonly description: string
  readonly parameters: z.ZodObject
}

/** Parameters that every message has. */
export const MESSAGE_PARAMETERS = {
  recipient_agent: 'The agent that receives the message.',
  message: 'What the recipient has to do, with all it needs to know.',
  additional_instructions: 'Extra instructions for the recipient, or "".',
} as const

/**
 * A tool of its own for some flows of a sender: with another name, a better description, or more parameters. Flows of a
 * sender that name the same one share it.
 *
 * @throws ConfigError the name or the parameters cannot be used.
 */
export function messageTool(options: MessageToolOptions): MessageTool {
  readOptions('messageTool', MessageToolChecks, options)
  const { name = 'send_message', description = 'Sends a message to another agent and waits for its answer.' } = options
  const parameters = options.parameters ?? z.object({})
  if (!TOOL_NAME.test(name)) throw new ConfigError(`messageTool "${name}": a name has 1 to 64 of A-Z a-z 0-9 _ -`)
  if (!(parameters instanceof z.ZodObject)) {
    throw new ConfigError(`messageTool "${name}": parameters must be a zod object`)
  }
  const problem = unsendable(parameters, 'parameters')
  if (problem !== undefined) throw new ConfigError(`messageTool "${name}": ${problem}`)
  const taken = Object.keys(MESSAGE_PARAMETERS).find((parameter) => parameter in parameters.shape)
  if (taken) throw new ConfigError(`messageTool "${name}": every message has the parameter ${taken} already`)
  const made = Object.freeze({ name, description, parameters })
  messageTools.add(made)
  return made
}

const messageTools = new WeakSet<object>()

export function isMessageTool(value: object): boolean {
  return messageTools.has(value)
}

export const SEND_MESSAGE = messageTool({})
