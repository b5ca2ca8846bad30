import {
  type AgencyContext,
  callTool,
  definitionOf,
  type FunctionTool,
  createRunContext,
  ToolInputError,
} from '@bureau/framework'
import { NO_USAGE } from '@bureau/protocol'
import { InvalidBody } from '../http/invalid-body.ts'
import { issuesOfLongLists } from '../http/long-lists.ts'
import { rawRoute, type ServerRoute } from '../http/route.ts'
import { lenientInput } from './lenient-input.ts'
import { requireSuccess, ToolTimeout } from './tool-failure.ts'
import { toolSpec } from './tool-spec.ts'
import { inputEntries, schemaCheck, toolInputOf } from './tool-input.ts'

type ToolCall = (input: Record<string, unknown>) => Promise<unknown>

/**
 * `POST /tool/<name>`: the body is the tool's input, the answer `{"response": <result>}`. A tool that fails is a 500 in
 * every style, and why it failed is for the log: what tools throw is not written for callers.
 *
 * Tools run on the server's own thread: one that computes for long without awaiting anything holds up everybody.
 */
export function toolRoutes(tools: readonly FunctionTool[]): ServerRoute[] {
  return tools.map((tool) => {
    const call = callOf(tool)
    return rawRoute(toolSpec(tool), async ({ request }, reply) => {
      const input = lenientInput(toolInputOf(request.body), tool.parameters)
      try {
        const response = (await withinTime(() => call(input), tool)) ?? null
        return await reply.type('application/json; charset=utf-8').send(JSON.stringify({ response }))
      } catch (error) {
        if (error instanceof InvalidBody) throw error
        request.log.warn({ err: error, tool: tool.name }, 'tool failed')
        const message = error instanceof ToolTimeout ? error.message : `The tool "${tool.name}" failed.`
        return reply.code(500).send({ Error: message, error: message })
      }
    })
  })
}

function callOf(tool: FunctionTool): ToolCall {
  const definition = definitionOf(tool)
  if (!definition) return sdkCallOf(tool)
  return async (input) => {
    const issues = issuesOfLongLists(definition.parameters, input)
    if (issues.length > 0) throw new InvalidBody(inputEntries(issues, input))
    try {
      return await callTool(definition, input, { userContext: {}, run: null, signal: null })
    } catch (error) {
      if (error instanceof ToolInputError) throw new InvalidBody(inputEntries(error.issues, input))
      throw error
    }
  }
}

/** Tools of `@openai/agents` would answer wrong input with a sentence for the model, so it is checked beforehand. */
function sdkCallOf(tool: FunctionTool): ToolCall {
  const check = schemaCheck(tool.name, tool.parameters)
  return async (input) => {
    check(input)
    return requireSuccess(
      await tool.invoke(
        createRunContext(OUTSIDE_A_RUN, () => NO_USAGE),
        JSON.stringify(input),
      ),
    )
  }
}

/** @throws ToolTimeout */
async function withinTime(call: () => Promise<unknown>, { name, timeoutMs }: FunctionTool): Promise<unknown> {
  if (timeoutMs === undefined) return call()
  const { promise: tooLate, reject } = Promise.withResolvers<never>()
  // Before the call: a tool has a clock of its own, and its answer would pass for a result.
  const timer = setTimeout(() => reject(new ToolTimeout(name, timeoutMs)), timeoutMs)
  return Promise.race([call(), tooLate]).finally(() => clearTimeout(timer))
}

/** What a tool sees as its run when it is called on its own. */
const OUTSIDE_A_RUN: AgencyContext = {
  runId: '',
  agent: '',
  userContext: {},
  signal: new AbortController().signal,
  emit: () => {},
}
