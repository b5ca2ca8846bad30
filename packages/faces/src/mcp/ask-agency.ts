import { type LogEvent, problemSentence } from '@bureau/runtime'
import { type RunEnded, Usage } from '@bureau/protocol'
import type { CallToolResult, Tool } from '@modelcontextprotocol/server'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { answerOf } from '../answer.ts'
import { beginRun, BY_TOKEN, type Remedies } from '../begin.ts'
import { approvalText } from '../openai/approval-text.ts'
import { type AskedRun, endOf, type FaceAgency, type FaceHost, type FaceRun } from '../face-host.ts'
import type { Threads } from '../threads.ts'
import type { Asking, ToolResult } from './ask-person.ts'

const Input = z.strictObject(
  {
    message: z
      .string({ error: ({ input }) => (input === undefined ? 'is missing; it must be a string' : 'must be a string') })
      .min(1, 'must not be empty')
      .describe('What you want to know or have done, with everything that is needed for it.'),
    thread_id: z
      .string({ error: 'must be a string' })
      .nullish()
      .describe(
        'Goes on with an earlier conversation: the thread_id of its last answer. Leave it out to begin a new one.',
      ),
  },
  { error: ({ code, keys }) => (code === 'unrecognized_keys' ? unknownArguments(keys) : undefined) },
)

/** Their names are the caller's, and as many and as long as it likes. */
function unknownArguments([first = '']: readonly string[]): string {
  return `${first.slice(0, 100)}: there is no such argument; there are message and thread_id`
}

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
  /** Present: the client can ask its user. */
  readonly asking: Asking | undefined
}

/** Where an agency is asked. `threads` keeps the conversations of a server that keeps none itself. */
export type AgencyHost = { readonly host: FaceHost; readonly threads?: Threads }

/** Carries out a call of the tool. What goes wrong is a result as well, for the model to read. */
export async function askAgency({ host, threads }: AgencyHost, asked: Asked): Promise<ToolResult> {
  const { served, request } = asked
  const call = readCall(asked)
  if ('isError' in call) return call
  if ('undecided' in call) return stillWaiting(host, asked, call.undecided)
  const { message, thread_id, ...goesOn } = call
  const thread = threads?.open(JSON.stringify([served.name, await host.callerOf(request, served)]), thread_id)
  try {
    const run = await beginRun({ host, remedies: REMEDIES }, request, {
      served,
      input: { message, history: thread?.history ?? [] },
      kept: false,
      ...goesOn,
    })
    // A server that keeps conversations lets runs go on without their client.
    const cancel = thread ? () => {} : () => void host.cancel(request, { served, runId: run.runId }).catch(() => {})
    const ended = await endFor(asked, run, cancel)
    if (isKept(ended)) thread?.add(ended.new_messages)
    return resultOf(ended, { asked, run, thread_id: thread?.id ?? run.conversation ?? '' })
  } finally {
    thread?.close()
  }
}

const REMEDIES: Remedies = {
  consumer: BY_TOKEN,
  waiting: (runId) => `Until the run ${runId} is decided about, leave thread_id out to begin another thread.`,
}

const isKept = ({ status }: RunEnded): boolean => status === 'completed' || status === 'waiting'

/** The run is there still, for whoever knows where. */
async function stillWaiting(
  host: FaceHost,
  { request, served }: Asked,
  { run, thread }: Waiting,
): Promise<CallToolResult> {
  const found = await host.find(request, { served, runId: run })
  const where = found?.approvalsUrl
    ? ` The run ${run} of the thread ${thread} waits still: the decision is made at ${found.approvalsUrl}, and the run goes on then.`
    : ''
  return failed('approval_required', `Nobody has decided about the call, so it was not carried out.${where}`)
}

type Waiting = { readonly run: string; readonly thread: string }

type AgencyCall = {
  readonly message: string | readonly []
  readonly thread_id: string | undefined
} & Pick<AskedRun, 'continues' | 'conversation' | 'decisions'>

type ReadCall = AgencyCall | { readonly undecided: Waiting } | (CallToolResult & { readonly isError: true })

function readCall({ input: given, asking }: Asked): ReadCall {
  const input = Input.safeParse(given, { error: problemSentence })
  if (!input.success) return failed('invalid_request', problemsOf(input.error))
  const { message, thread_id } = input.data
  const goesOn = asking?.decided()
  if (!goesOn) {
    const conversation = thread_id == null ? {} : { conversation: thread_id }
    return { message, thread_id: thread_id ?? undefined, ...conversation, ...(asking && { decisions: [] }) }
  }
  const { run, thread, decisions } = goesOn
  return decisions.length > 0
    ? { message: [], thread_id: thread, decisions, continues: run }
    : { undecided: { run, thread } }
}

const problemsOf = ({ issues }: z.ZodError): string =>
  issues.map(({ path, message }) => [...path.map(String), message].join(': ')).join('; ')

type Ended = { readonly asked: Asked; readonly run: FaceRun; readonly thread_id: string }

function resultOf(ended: RunEnded, { asked: { served, asking }, run, thread_id }: Ended): ToolResult {
  const { status, approvals } = ended
  if (status === 'completed') return answered(ended, served, thread_id)
  if (!approvals || !asking || !run.mayDecide) return notAnswered(ended, run)
  return asking.ask(approvals, { run: run.runId, thread: thread_id })
}

/** Waits for the end of a run, which ends with its client. */
async function endFor({ signal, report }: Asked, run: FaceRun, cancel: () => void): Promise<RunEnded> {
  const leave = (): void => {
    run.leave()
    cancel()
  }
  if (signal.aborted) leave()
  signal.addEventListener('abort', leave, { once: true })
  try {
    return await endOf(run, signal, report)
  } catch (error) {
    leave()
    throw error
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

const CANNOT_ASK =
  'A tool waits for an approval, which your client cannot ask its user for: that takes MCP 2026-07-28 and the capability elicitation.'

function notAnswered({ status, error, approvals = [] }: RunEnded, { approvalsUrl }: FaceRun): CallToolResult {
  if (error?.code === 'approval_required') return failed(error.code, CANNOT_ASK)
  if (error) return failed(error.code, error.message)
  if (status === 'cancelled') return failed(status, 'The run was cancelled.')
  return failed('approval_required', approvals.map((approval) => approvalText(approval, approvalsUrl)).join('\n'))
}

/** The thread is named in words as well, because some clients show their model nothing but the text. */
function answered(ended: RunEnded, served: FaceAgency, thread_id: string): CallToolResult {
  const { run_id, usage } = ended
  const answer = answerOf(ended, served)
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

/** A call that has failed, in words that its model can do something with, and under our code. */
export function failed(code: string, message: string): CallToolResult & { readonly isError: true } {
  return { isError: true, content: [{ type: 'text', text: message }], _meta: { 'bureau/code': code } }
}
