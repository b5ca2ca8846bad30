import type { LogEvent } from '@bureau/runtime'
import { type RunEnded, Usage } from '@bureau/protocol'
import type { CallToolResult, Tool } from '@modelcontextprotocol/server'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { endOf, type FaceAgency, type FaceHost } from '../face-host.ts'
import { textOf } from '../openai/model-event.ts'
import type { Threads } from '../threads.ts'
import { failed } from './failed.ts'

const Input = z.strictObject({
  message: z.string().min(1).describe('What you want to know or have done, with everything that is needed for it.'),
  thread_id: z
    .string()
    .nullish()
    .describe(
      'Goes on with an earlier conversation: the thread_id of its last answer. Leave it out to begin a new one.',
    ),
})

const Output = z.object({
  answer: z.unknown().describe('Text, or an object where the agency answers with one.'),
  thread_id: z.string().describe('Pass it with the next message of this conversation.'),
  run_id: z.string(),
  usage: Usage.nullable(),
})

type Schema = Tool['inputSchema']
const inputSchema = z.toJSONSchema(Input, { io: 'input' }) as Schema
const outputSchema = z.toJSONSchema(Output) as NonNullable<Tool['outputSchema']>

/** An agency as a tool: what is sent to it is the user's message of a run, and the run's answer is the result. */
export function agencyTool(name: string, { agency }: FaceAgency): Tool {
  const purpose = agency.entryPoint.description
  return {
    name,
    title: agency.name,
    description: `Sends a message to ${JSON.stringify(agency.name)} and returns its answer.${purpose ? ` ${purpose}` : ''}`,
    inputSchema,
    outputSchema,
    annotations: { openWorldHint: true },
  }
}

type Asked = {
  readonly served: FaceAgency
  readonly input: unknown
  readonly request: FastifyRequest
  /** Aborts when the client has left. */
  readonly signal: AbortSignal
  /** Shows what happens in the run. When it throws, the run is stopped. */
  readonly report: (event: LogEvent) => void
}

/** Where an agency is asked. `threads` keeps the conversations of a server that keeps none itself. */
export type AgencyHost = { readonly host: FaceHost; readonly threads?: Threads }

/** Carries out a call of the tool. What goes wrong is a result as well, for the model to read. */
export async function askAgency({ host, threads }: AgencyHost, asked: Asked): Promise<CallToolResult> {
  const { served, request, signal } = asked
  const input = Input.safeParse(asked.input)
  if (!input.success) return failed('invalid_request', z.prettifyError(input.error))
  const { message, thread_id } = input.data
  const owner = JSON.stringify([served.name, await host.callerOf(request, served)])
  const thread = threads?.open(owner, thread_id ?? undefined)
  try {
    const run = await host.begin(request, {
      served,
      input: { message, history: thread?.history ?? [] },
      kept: false,
      ...(!thread && thread_id && { continues: thread_id }),
    })
    const leave = (): void => {
      run.leave()
      // A server that keeps conversations lets runs go on without their client.
      if (!thread) host.cancel(request, { served, runId: run.runId }).catch(() => {})
    }
    if (signal.aborted) leave()
    signal.addEventListener('abort', leave, { once: true })
    const ended = await endOf(run, signal, asked.report).catch((error: unknown) => {
      leave()
      throw error
    })
    signal.removeEventListener('abort', leave)
    if (ended.status !== 'completed') return notAnswered(ended)
    thread?.add(ended.new_messages)
    return answered(ended, thread?.id ?? run.conversation ?? '')
  } finally {
    thread?.close()
  }
}

function notAnswered({ status, error }: RunEnded): CallToolResult {
  if (error) return failed(error.code, error.message)
  if (status === 'cancelled') return failed(status, 'The run was cancelled.')
  return failed('approval_required', NO_APPROVALS)
}

const NO_APPROVALS = 'A person has to approve what the agency wants to do, which is not possible through this protocol.'

/** The thread is named in words as well, because some clients show their model nothing but the text. */
function answered(ended: RunEnded, thread_id: string): CallToolResult {
  const { run_id, usage } = ended
  const answer = ended.output ?? lastText(ended)
  const text = typeof answer === 'string' ? answer : JSON.stringify(answer)
  const hint = `To continue this conversation, pass thread_id ${JSON.stringify(thread_id)} with the next message.`
  return {
    content: [
      { type: 'text', text },
      { type: 'text', text: hint },
    ],
    structuredContent: { answer, thread_id, run_id, usage },
  }
}

/** What the agency has said last: a server that records its runs has the answer among their messages only. */
function lastText({ new_messages }: RunEnded): string {
  const last = new_messages.findLast(({ role, callerAgent }) => role === 'assistant' && callerAgent == null)
  return last ? textOf(last) : ''
}
