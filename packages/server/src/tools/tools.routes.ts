import {
  type AgencyContext,
  callTool,
  definitionOf,
  type FunctionTool,
  createRunContext,
  limitedText,
  MAX_OUTPUT_CHARACTERS,
  SharedState,
  TOOL_FAILURE,
  ToolInputError,
} from '@bureau/framework'
import type { McpTool } from '@bureau/faces'
import { NO_USAGE, ServiceError } from '@bureau/protocol'
import type { FastifyRequest } from 'fastify'
import { InvalidBody } from '../http/invalid-body.ts'
import { issuesOfLongLists } from '../http/long-lists.ts'
import { rawRoute, type ServerRoute } from '../http/route.ts'
import { userOf } from '../http/users.ts'
import { lenientInput } from './lenient-input.ts'
import { toolSpec } from './tool-spec.ts'
import { inputEntries, schemaCheck, toolInputOf } from './tool-input.ts'

type ToolCall = (input: Record<string, unknown>, userContext: Record<string, unknown>) => Promise<unknown>

/**
 * `POST /tool/<name>`: the body is the tool's input, the answer `{"response": <result>}`. A tool that fails is a 500 in
 * every style, and why it failed is for the log: what tools throw is not written for callers.
 *
 * Tools run on the server's own thread: a tool that computes for long without awaiting anything blocks every request.
 */
export function toolRoutes(tools: readonly FunctionTool[]): ServerRoute[] {
  return tools.map((tool) => {
    const call = servedCall(tool)
    return rawRoute(toolSpec(tool), async ({ request }, reply) => {
      try {
        const answer = toolAnswer(tool.name, await call(request.body, userContextOf(request)))
        return await reply.type('application/json; charset=utf-8').send(answer)
      } catch (error) {
        if (error instanceof InvalidBody) throw error
        request.log.warn({ err: error, tool: tool.name }, 'tool failed')
        const sentence = failureOf(tool, error)
        return reply.code(500).send({ Error: sentence, error: sentence, code: 'tool_failed' })
      }
    })
  })
}

/** The same tools for clients of the Model Context Protocol. Models call there, so it matters whether a person must approve. */
export function mcpTools(tools: readonly FunctionTool[]): McpTool[] {
  return tools.map((tool) => {
    const { name, description, parameters } = tool
    const servedTool = servedCall(tool)
    const needsPerson: McpTool['needsPerson'] = async (given, request) => {
      const input = lenientInput(given, parameters)
      if (!tool.needsApproval || longLists(tool, input).length > 0) return false
      const context = { ...outsideARun(), userContext: userContextOf(request) }
      return tool.needsApproval(
        createRunContext(context, () => NO_USAGE),
        input,
      )
    }
    const call: McpTool['call'] = async (input, request) => {
      try {
        const result = await servedTool(input, userContextOf(request))
        return JSON.parse(toolAnswer(name, result)).response
      } catch (error) {
        if (error instanceof InvalidBody) throw new ServiceError('invalid_request', { message: error.message })
        request.log.warn({ err: error, tool: name }, 'tool failed')
        throw new ServiceError('tool_failed', { message: failureOf(tool, error) })
      }
    }
    return { name, description, inputSchema: parameters, needsPerson, call }
  })
}

/** As in a run. */
function userContextOf(request: FastifyRequest): Record<string, unknown> {
  const user = userOf(request)
  return user ? { user_id: user.id, user } : {}
}

function failureOf({ name }: FunctionTool, error: unknown): string {
  return error instanceof ToolFailure ? error.message : `The tool "${name}" failed.`
}

/**
 * What calls a tool outside any run, with the members of a request's body as its input.
 *
 * @throws InvalidBody @throws ToolFailure @throws What the tool throws.
 */
export function servedCall(
  tool: FunctionTool,
): (body: unknown, userContext: Record<string, unknown>) => Promise<unknown> {
  const call = callOf(tool)
  return (body, userContext) => {
    const input = lenientInput(toolInputOf(body), tool.parameters)
    return withinTime(() => call(input, userContext), tool)
  }
}

function callOf(tool: FunctionTool): ToolCall {
  const definition = definitionOf(tool)
  if (!definition) return sdkCallOf(tool)
  return async (input, userContext) => {
    const issues = longLists(tool, input)
    if (issues.length > 0) throw new InvalidBody(inputEntries(issues, input))
    try {
      return await callTool(definition, input, { userContext, run: null, signal: null, idempotencyKey: null })
    } catch (error) {
      if (error instanceof ToolInputError) throw new InvalidBody(inputEntries(error.issues, input))
      throw error
    }
  }
}

/** To be asked before the schema is, which would explain each wrong entry. A tool of `@openai/agents` has no such schema. */
function longLists(tool: FunctionTool, input: Record<string, unknown>) {
  const definition = definitionOf(tool)
  return definition ? issuesOfLongLists(definition.parameters, input) : []
}

/** Tools of `@openai/agents` would answer wrong input with a sentence for the model, so it is checked beforehand. */
function sdkCallOf(tool: FunctionTool): ToolCall {
  const check = schemaCheck(tool.name, tool.parameters)
  return async (input) => {
    check(input)
    return requireSuccess(
      await tool.invoke(
        createRunContext(outsideARun(), () => NO_USAGE),
        JSON.stringify(input),
      ),
    )
  }
}

/** @throws ToolFailure it takes too long */
async function withinTime(call: () => Promise<unknown>, { name, timeoutMs }: FunctionTool): Promise<unknown> {
  if (timeoutMs === undefined) return call()
  const { promise: tooLate, reject } = Promise.withResolvers<never>()
  // Before the call: a tool has a clock of its own, and its answer would pass for a result.
  const timer = setTimeout(
    () => reject(new ToolFailure(`The tool "${name}" took longer than ${timeoutMs} ms.`)),
    timeoutMs,
  )
  return Promise.race([call(), tooLate]).finally(() => clearTimeout(timer))
}

/** What a tool sees as its run when it is called on its own. */
function outsideARun(): AgencyContext {
  const { signal } = new AbortController()
  return { runId: '', agent: '', userContext: {}, sharedState: new SharedState(), signal, emit: () => {} }
}

/** Why a tool has failed, in a message that is fit for the caller. */
class ToolFailure extends Error {
  override readonly name = 'ToolFailure'
}

/** @throws Error the result stands for a failure of such a tool. */
function requireSuccess(result: unknown): unknown {
  if (result === TOOL_FAILURE) throw new Error('The tool has thrown an error, which its maker does not pass on.')
  return result
}

/**
 * The answer with a tool's result, as JSON. A text that is too long is cut, with a note, as in a run.
 *
 * @throws ToolFailure a result is nothing that JSON has, such as a function; or of another kind and too long: a part of it
 *   would say something else.
 */
function toolAnswer(tool: string, result: unknown): string {
  if (typeof result === 'string') return JSON.stringify({ response: limitedText(result) })
  const response: string | undefined = JSON.stringify(result ?? null)
  if (response === undefined) throw new ToolFailure(`The result of the tool "${tool}" cannot be written as JSON.`)
  const answer = `{"response":${response}}`
  if (answer.length <= MAX_OUTPUT_CHARACTERS) return answer
  throw new ToolFailure(`The result of the tool "${tool}" is longer than ${MAX_OUTPUT_CHARACTERS} characters of JSON.`)
}
