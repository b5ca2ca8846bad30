import type { ApprovalRequest, Message, RunEnded, RunEvent } from '@bureau/protocol'
import type { Agency } from './agency/agency.ts'
import { CallSuspended } from './agency/function-tool.ts'
import { type LoadedInput, loadFiles, UnusableFiles } from './attached-files.ts'
import { nameChat } from './run/chat-title.ts'
import { runConversation } from './loop/run-conversation.ts'
import { openUserConversation } from './loop/user-conversation.ts'
import { newMessagesForClient, traceIdOf } from './history/history.ts'
import { randomHex } from './random-hex.ts'
import { type ApprovalOptions, messagesWhileWaiting, requestApprovals } from './run/held-run.ts'
import { Run } from './run/run.ts'
import type { RunSetup } from './run/run-setup.ts'
import { RunFailed, RunStopped } from './run/run-errors.ts'
import { describeFailure } from './run/run-failure.ts'
import { summarizeHistory } from './run/summarize-history.ts'
import type { RunInput } from './run/run-input.ts'
import { RunTrace } from './trace/run-trace.ts'
import { type AnyTool, toAgentTools } from './agency/tool.ts'

export type RunOptions = RunSetup & {
  /** How calls are held that need an approval. False: nobody can be asked, and the run fails with `approval_required`. */
  readonly approvals?: ApprovalOptions | false | undefined
  /** Tools that every agent has in this run, besides its own; an agent's own tool of the same name wins. */
  readonly tools?: readonly AnyTool[]
  /** Longest time that the run may take, in milliseconds. Default: the agency's. */
  readonly timeoutMs?: number
  /** Called for every failure with its cause, which no event carries. */
  readonly onFailure?: ((error: unknown) => void) | undefined
}

/**
 * One run: a message in, events out. The first event is `run.started`, or `run.resumed` where another process has begun,
 * and the last `run.ended`, whatever happens; it never throws.
 */
export async function runAgency(agency: Agency, asked: RunInput, options: RunOptions): Promise<RunEnded> {
  const { control, sink } = options
  const agent = asked.agent ?? agency.entryPoint.name
  const limitMs = options.timeoutMs ?? agency.runTimeoutMs
  const timer = setTimeout(() => control.timeOut(limitMs), limitMs)
  sink.emit(beginning(agent, options))
  const loaded = asked.readFiles ? await loadFiles(agency, asked, options) : { input: asked }
  try {
    return await execute(agency, loaded, options)
  } catch (thrown) {
    return endBroken(thrown, options)
  } finally {
    clearTimeout(timer)
    loaded.release?.()
  }
}

/** @throws What watches the run has thrown. */
async function execute(agency: Agency, { input, failure }: LoadedInput, options: RunOptions): Promise<RunEnded> {
  const agent = input.agent ?? agency.entryPoint.name
  const run = openRun(agency, input, options)
  try {
    const outcome = await work(run, agent, { failure, options })
    await run.toolServers.signInsEnded()
    run.abandonRequests()
    const ended: RunEnded = {
      type: 'run.ended',
      run_id: options.runId,
      status: outcome.status,
      new_messages: newMessagesOf(run, outcome),
      usage: agency.agents.get(agent)?.includeUsage === false ? null : run.usage,
      usage_by_model: run.usageByModel,
      output: outcome.output,
      error: outcome.error,
      ...(outcome.approvals && { approvals: outcome.approvals }),
      ...(input.fileIdsMap && { file_ids_map: input.fileIdsMap }),
      ...(outcome.chatName !== undefined && { chat_name: outcome.chatName }),
      ...(run.leftToCaller.length > 0 && { caller_calls: run.leftToCaller }),
    }
    run.trace?.end(ended, run.spent)
    run.emit(ended)
    return ended
  } finally {
    run.close()
  }
}

/** Something of ours has failed, of which no agent knows: clients and the log learn of it as of any other failure. */
function endBroken(thrown: unknown, options: RunOptions): RunEnded {
  const { runId, sink } = options
  const error = describeFailure(thrown)
  report(options, thrown)
  const nothing = { new_messages: [], usage: null, usage_by_model: [], output: null }
  const ended: RunEnded = { type: 'run.ended', run_id: runId, status: 'failed', ...nothing, error }
  sink.emit({ type: 'run.error', source: null, error })
  sink.emit(ended)
  return ended
}

/** A run ends whatever `onFailure` does. */
function report({ onFailure }: RunOptions, thrown: unknown): void {
  try {
    onFailure?.(thrown)
  } catch {
    // The failure itself is in the run's events.
  }
}

function beginning(agent: string, { runId, resume }: RunOptions): RunEvent {
  const isNew = !resume || (resume.state !== null && resume.state.run_id !== runId)
  if (isNew) return { type: 'run.started', run_id: runId, agent }
  return { type: 'run.resumed', attempt: resume.attempt, withdrawn: resume.withdrawn }
}

/** What the run has produced. Calls that a person has to decide about, or that the caller carries out, are part of it. */
function newMessagesOf({ state, messages, leftToCaller, input }: Run, { status }: Outcome): Message[] {
  const left = leftToCaller.map((call_id): Message => ({ type: 'function_call_output', call_id }))
  if (status === 'waiting') return messagesWhileWaiting(messages, state, { history: input.history, left })
  return newMessagesForClient(messages, input.history, left)
}

type Outcome = Pick<RunEnded, 'status' | 'output' | 'error'> & {
  readonly chatName?: string | undefined
  readonly approvals?: readonly ApprovalRequest[]
}

/** Never throws. */
async function work(
  run: Run,
  agent: string,
  { failure, options }: Pick<LoadedInput, 'failure'> & { readonly options: RunOptions },
): Promise<Outcome> {
  const { control } = run
  let output: unknown = null
  try {
    if (failure) throw failure.thrown
    await summarizeHistory(run, agent)
    const answered = await answerUser(run, agent)
    if (!answered.isAnswered) {
      if (options.approvals === false) throw new RunFailed('approval_required')
      return { status: 'waiting', output, error: null, approvals: await requestApprovals(run, options.approvals) }
    }
    ;({ output } = answered)
    if (control.stopAfterTurn) return { status: 'cancelled', output, error: null }
    const chatName = run.input.generateChatName ? await nameChat(run, agent) : undefined
    return { status: 'completed', output, error: null, chatName }
  } catch (thrown) {
    if (thrown instanceof RunStopped && thrown.reason !== 'timeout') {
      return { status: 'cancelled', output, error: null }
    }
    const error = thrown instanceof UnusableFiles ? thrown.error : describeFailure(thrown)
    report(options, thrown)
    run.emit({ type: 'run.error', source: error.code === 'guardrail_tripped' ? null : run.lastSource, error })
    return { status: 'failed', output, error }
  }
}

function openRun(agency: Agency, input: RunInput, options: RunOptions): Run {
  const { runId, environment, resume } = options
  const agent = input.agent ?? agency.entryPoint.name
  const traceId = resume?.state?.trace_id ?? traceIdOf(input.history) ?? `trace_${randomHex()}`
  const root = environment.observer?.({ kind: 'run', runId, agency, agent, content: () => input.message })
  const trace = root && new RunTrace(root)
  return new Run(options, { agency, input, traceId, trace, tools: toAgentTools(options.tools ?? []) })
}

type Answered = { readonly isAnswered: true; readonly output: unknown } | { readonly isAnswered: false }

async function answerUser(run: Run, agent: string): Promise<Answered> {
  const conversation = openUserConversation(run, agent)
  run.lastSource = conversation.source
  try {
    return { isAnswered: true, output: await runConversation(conversation) }
  } catch (error) {
    if (!(error instanceof CallSuspended)) throw error
    await run.commit()
    return { isAnswered: false }
  } finally {
    run.lastSource = conversation.source
    conversation.endTurn()
  }
}
