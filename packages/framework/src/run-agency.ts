import { type Message, type RunEnded, type RunEvent, withoutMetadata } from '@bureau/protocol'
import type { Agency } from './agency/agency.ts'
import { storage } from './agency/agent.ts'
import { type LoadedInput, loadFiles, UnusableFiles } from './attached-files.ts'
import { nameChat } from './run/chat-title.ts'
import { Conversation } from './loop/conversation.ts'
import { runConversation } from './loop/run-conversation.ts'
import {
  checkHistory,
  forModel,
  newMessagesForClient,
  recipientReminder,
  traceIdOf,
  userThread,
} from './history/history.ts'
import { randomHex } from './random-hex.ts'
import { type OnToolFailure, Run, type RunEnvironment, type RunSink } from './run/run.ts'
import type { RunJournal, RunResume } from './run/run-journal.ts'
import type { RunControl } from './run/run-control.ts'
import { RunFailed, RunStopped } from './run/run-errors.ts'
import { describeFailure } from './run/run-failure.ts'
import { inputItems, type RunInput } from './run/run-input.ts'
import { RunTrace } from './trace/run-trace.ts'
import { type AnyTool, toAgentTools } from './agency/tool.ts'

export type RunOptions = {
  readonly runId: string
  readonly sink: RunSink
  readonly control: RunControl
  readonly environment: RunEnvironment
  readonly journal?: RunJournal
  /** Goes on with a run that another process has begun, under the same id and with the same input. */
  readonly resume?: RunResume | undefined
  /** Tools that every agent has in this run, besides its own; an agent's own tool of the same name wins. */
  readonly tools?: readonly AnyTool[]
  /** Turns of one agent's conversation. Default: the agency's. */
  readonly maxTurns?: number
  /** Longest time that the run may take, in milliseconds. Default: the agency's. */
  readonly timeoutMs?: number
  /** Called for every failure with its cause, which no event carries. */
  readonly onFailure?: ((error: unknown) => void) | undefined
  readonly onToolFailure?: OnToolFailure | undefined
}

/**
 * One run: a message in, events out. The first event is `run.started`, or `run.resumed` where another process has begun,
 * and the last `run.ended`, whatever happens; it never throws.
 */
export async function runAgency(agency: Agency, asked: RunInput, options: RunOptions): Promise<RunEnded> {
  const { runId, control, sink } = options
  const agent = asked.agent ?? agency.entryPoint.name
  const timer = setTimeout(() => control.timeOut(), options.timeoutMs ?? agency.runTimeoutMs)
  sink.emit(options.resume ? resumed(options.resume) : { type: 'run.started', run_id: runId, agent })
  const { input, release, failure } = asked.readFiles ? await loadFiles(agency, asked, options) : { input: asked }
  const run = openRun(agency, input, options)
  const outcome = await work(run, agent, { failure, onFailure: options.onFailure })
  clearTimeout(timer)
  await run.toolServers.signInsEnded()
  run.abandonRequests()
  const ended: RunEnded = {
    type: 'run.ended',
    run_id: runId,
    status: outcome.status,
    new_messages: newMessagesForClient(run.messages, input.history, run.leftToCaller),
    usage: agency.agents.get(agent)?.includeUsage === false ? null : run.usage,
    usage_by_model: run.usageByModel,
    output: outcome.output,
    error: outcome.error,
    ...(input.fileIdsMap && { file_ids_map: input.fileIdsMap }),
    ...(outcome.chatName !== undefined && { chat_name: outcome.chatName }),
    ...(run.leftToCaller.length > 0 && { caller_calls: run.leftToCaller }),
  }
  run.emit(ended)
  run.close()
  run.trace?.end(ended)
  release?.()
  return ended
}

function resumed({ attempt, withdrawn }: RunResume): RunEvent {
  return { type: 'run.resumed', attempt, withdrawn }
}

type Outcome = Pick<RunEnded, 'status' | 'output' | 'error'> & { readonly chatName?: string | undefined }

/** Never throws. */
async function work(
  run: Run,
  agent: string,
  { failure, onFailure }: Pick<LoadedInput, 'failure'> & Pick<RunOptions, 'onFailure'>,
): Promise<Outcome> {
  const { control, input } = run
  let output: unknown = null
  try {
    if (failure) throw failure.thrown
    output = await answerUser(run, agent)
    if (control.stopAfterTurn) return { status: 'cancelled', output, error: null }
    const chatName = input.generateChatName ? await nameChat(run, agent) : undefined
    return { status: 'completed', output, error: null, chatName }
  } catch (thrown) {
    if (thrown instanceof RunStopped && thrown.reason !== 'timeout') {
      return { status: 'cancelled', output, error: null }
    }
    const error = thrown instanceof UnusableFiles ? thrown.error : describeFailure(thrown)
    onFailure?.(thrown)
    run.emit({ type: 'run.error', source: error.code === 'guardrail_tripped' ? null : run.lastSource, error })
    return { status: 'failed', output, error }
  }
}

function openRun(agency: Agency, input: RunInput, options: RunOptions): Run {
  const { runId, sink, control, environment, journal, resume, maxTurns } = options
  const tools = toAgentTools(options.tools ?? [])
  const agent = input.agent ?? agency.entryPoint.name
  const traceId = resume?.state?.trace_id ?? traceIdOf(input.history) ?? `trace_${randomHex()}`
  const root = environment.observer?.({ kind: 'run', runId, agency, agent, content: () => input.message })
  const trace = root && new RunTrace(root)
  return new Run({
    runId,
    agency,
    input,
    control,
    environment,
    traceId,
    trace,
    sink,
    journal,
    resume,
    maxTurns,
    tools,
    onToolFailure: options.onToolFailure,
  })
}

async function answerUser(run: Run, agent: string): Promise<unknown> {
  const conversation = openConversation(run, agent)
  run.lastSource = conversation.source
  try {
    return await runConversation(conversation)
  } finally {
    run.lastSource = conversation.source
    conversation.endTurn()
  }
}

/** The conversation with the user, with all that the request says; as far as another process has come, if one has begun. */
function openConversation(run: Run, agent: string): Conversation {
  const { input, state } = run
  const { agents } = run.agency
  const known = Object.values(state.conversations)
  if (!known.every((each) => agents.has(each.addressed) && agents.has(each.agent)))
    throw new RunFailed('agency_changed')
  checkHistory(input.history)
  const thread: Message[] = userThread(input.history)
  const next = inputItems(input)
  const history = forModel(thread, { ...storage(agents.get(agent)!), next }).map(withoutMetadata)
  const reminder = recipientReminder(thread, agents.get(agent)!)
  const conversation = new Conversation(run, {
    agent,
    converse: runConversation,
    additionalInstructions: input.additionalInstructions,
    history,
    resume: known.find(({ parent }) => parent === null),
  })
  if (input.attachmentSources) conversation.give([input.attachmentSources])
  if (reminder) conversation.give([reminder], 'recipient_reminder')
  conversation.give(next)
  run.restoreMessages()
  conversation.restore()
  return conversation
}
