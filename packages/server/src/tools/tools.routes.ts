import type { FastifyInstance } from 'fastify'
import {
  type AgencyContext,
  callTool,
  definitionOf,
  type FunctionTool,
  RunContext,
  ToolInputError,
} from '@bureau/framework'
import { InvalidBody } from '../http/invalid-body.ts'
import { failureMessage, requireSuccess } from './tool-failure.ts'
import { inputEntries, schemaCheck, toolInputOf } from './tool-input.ts'

type ToolCall = (input: Record<string, unknown>) => Promise<unknown>

/**
 * `POST /tool/<name>`: the body is the tool's input, the answer `{"response": <result>}`.
 *
 * Input is taken as it is: `"3"` is no number, because the description of the API says so too. Tools run on the server's
 * own thread: one that computes for long without awaiting anything holds up everybody.
 */
export function toolRoutes(app: FastifyInstance, tools: readonly FunctionTool<AgencyContext>[]): void {
  for (const tool of tools) {
    const call = callOf(tool)
    app.post(`/tool/${tool.name}`, async (request, reply) => {
      const input = toolInputOf(request.body)
      try {
        const response = (await withinTime(call(input), tool)) ?? null
        return await reply.type('application/json; charset=utf-8').send(JSON.stringify({ response }))
      } catch (error) {
        if (error instanceof InvalidBody) throw error
        request.log.warn({ err: error, tool: tool.name }, 'tool failed')
        const message = failureMessage(tool.name, error)
        return reply.code(500).send({ Error: message, error: message })
      }
    })
  }
}

function callOf(tool: FunctionTool<AgencyContext>): ToolCall {
  const definition = definitionOf(tool)
  if (!definition) return sdkCallOf(tool)
  return async (input) => {
    try {
      return await callTool(definition, input, { userContext: {}, run: null, signal: null })
    } catch (error) {
      if (error instanceof ToolInputError) throw new InvalidBody(inputEntries(error.issues, input))
      throw error
    }
  }
}

/** Tools of the agents SDK would answer wrong input with a sentence for the model, so it is checked beforehand. */
function sdkCallOf(tool: FunctionTool<AgencyContext>): ToolCall {
  const check = schemaCheck(tool.name, tool.parameters)
  return async (input) => {
    check(input)
    return requireSuccess(await tool.invoke(new RunContext(OUTSIDE_A_RUN), JSON.stringify(input)))
  }
}

async function withinTime(result: Promise<unknown>, { timeoutMs }: FunctionTool<AgencyContext>): Promise<unknown> {
  if (timeoutMs === undefined) return result
  const { promise: tooLate, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`The tool took longer than ${timeoutMs} ms.`)), timeoutMs)
  return Promise.race([result, tooLate]).finally(() => clearTimeout(timer))
}

/** What a tool of the agents SDK sees as its run when it is called on its own. */
const OUTSIDE_A_RUN: AgencyContext = {
  runId: '',
  agent: '',
  userContext: {},
  signal: new AbortController().signal,
  emit: () => {},
}
