import type { RunObserver, RunSpan, RunStep, StepEnd } from '@bureau/framework'
import type { RecentRun, RecentRunDetail, RecentRunStep } from '@bureau/protocol'
import type { StartRun } from '@bureau/runtime'
import { describeThrown, fits, shortened } from './shorten.ts'

const MAX_STEPS = 1_000
/** Characters of all that one run keeps. */
const MAX_LENGTH = 524_288
const MAX_TEXT_LENGTH = 16_384
const PREVIEW_LENGTH = 200

type Asked = Pick<StartRun, 'agency' | 'agencyName' | 'input' | 'userId' | 'resume'>
type Root = Parameters<RunObserver>[0]
type PartOfRun = Exclude<RunStep, { kind: 'run' }>
type Step = { -readonly [Member in keyof RecentRunStep]: RecentRunStep[Member] }

type RecordedRunOptions = { readonly showsPrompts: boolean; readonly onGrown: (by: number) => void }

/** One run while it is recorded, and what is kept of it. */
export class RecordedRun {
  readonly span: RunSpan
  /** The id of the run with which it began, however often a person had to decide since: its own, if it goes on with none. */
  readonly origin: string
  readonly #options: RecordedRunOptions
  readonly #startedAt = performance.now()
  readonly #summary: { -readonly [Member in keyof RecentRun]: RecentRun[Member] }
  readonly #request: RecentRunDetail['request']
  #steps: Step[] = []
  #newMessages: RecentRunDetail['new_messages'] = null
  #leftOut = 0
  #length = 0
  #stopped = false

  constructor(root: Root, asked: Asked, options: RecordedRunOptions) {
    const { input, agency, agencyName, userId = null } = asked
    this.#options = options
    this.origin = asked.resume?.state?.run_id ?? root.runId
    this.#request = this.#requestOf(input)
    this.#summary = {
      run_id: root.runId,
      agency: agencyName,
      agency_version: agency.version,
      agent: root.agent,
      user_id: userId,
      status: 'running',
      message: previewOf(input.message) || (asked.resume ? previewOf(lastOfUser(input.history)) : ''),
      started_at: new Date().toISOString(),
      duration_ms: null,
      model_calls: 0,
      tool_calls: 0,
      usage: null,
      error: null,
      failure: null,
    }
    this.span = {
      child: (step) => (step.kind === 'run' ? this.span : this.#open(step, null)),
      firstOutput: () => {},
      end: (end) => this.#end(end),
    }
  }

  /** Characters that are kept of it. */
  get length(): number {
    return this.#length
  }

  get summary(): RecentRun {
    return { ...this.#summary }
  }

  get detail(): RecentRunDetail {
    return {
      ...this.#summary,
      steps: this.#steps.map((step) => ({ ...step })),
      steps_left_out: this.#leftOut,
      request: this.#request,
      new_messages: this.#newMessages,
    }
  }

  failed(error: unknown): void {
    this.#summary.failure = describeThrown(error)
  }

  /** When two calls of one tool run side by side, the failure is attributed to the first. */
  toolFailed(error: unknown, { agent, tool }: { readonly agent: string; readonly tool: string }): void {
    const step = this.#steps.find(
      (each) => each.kind === 'tool' && each.name === tool && each.agent === agent && each.duration_ms === null,
    )
    if (step) step.failure ??= describeThrown(error)
  }

  /** Another run goes on with it: nothing of this one waits any more. */
  wentOn(): void {
    if (this.#summary.status === 'waiting') this.#summary.status = 'completed'
  }

  /** Nothing more is recorded. */
  stop(): void {
    this.#stopped = true
    this.#steps = []
  }

  #requestOf({ message, history, userContext, additionalInstructions }: Asked['input']): RecentRunDetail['request'] {
    const request = {
      message: message as string | Record<string, unknown>[],
      chat_history: [...history],
      user_context: userContext ?? null,
      additional_instructions: additionalInstructions ?? null,
    }
    return this.#keeps(request) ? request : null
  }

  #open(step: PartOfRun, parent: number | null): RunSpan {
    if (step.kind === 'model') this.#summary.model_calls += 1
    if (step.kind === 'tool') this.#summary.tool_calls += 1
    const isFull = this.#stopped || this.#steps.length >= MAX_STEPS || this.#length >= MAX_LENGTH
    if (isFull) this.#leftOut += 1
    const recorded: Step = {
      id: this.#steps.length,
      parent,
      kind: step.kind,
      name: step.kind === 'agent' ? step.agent : step.kind === 'model' ? step.model : step.tool,
      agent: step.agent,
      ...(step.kind === 'tool' && { call_id: step.callId }),
      start_ms: this.#elapsedMs(),
      duration_ms: null,
      error_code: null,
    }
    if (!isFull) this.#steps.push(recorded)
    const isShown = step.kind === 'tool' || (step.kind === 'model' && this.#options.showsPrompts)
    if (!isFull && isShown) this.#keepText(recorded, 'input', step.content())
    return {
      child: (inner) => (inner.kind === 'run' ? this.span : this.#open(inner, isFull ? parent : recorded.id)),
      firstOutput: () => void (recorded.first_output_ms = this.#elapsedMs() - recorded.start_ms),
      end: (end) => this.#close(recorded, end),
    }
  }

  #close(step: Step, { errorCode, response, content }: StepEnd): void {
    step.duration_ms = this.#elapsedMs() - step.start_ms
    // A refused sign-in is an answer to the model, and yet nothing has come of the call.
    step.error_code = errorCode ?? (step.failure === undefined ? null : 'tool_failed')
    if (response) step.usage = response.usage
    if (content && !this.#stopped) this.#keepText(step, 'output', content())
  }

  #end({ run, errorCode }: StepEnd): void {
    this.#summary.duration_ms = this.#elapsedMs()
    this.#summary.status = run?.status ?? (errorCode === null ? 'completed' : 'failed')
    this.#summary.usage = run?.usage ?? null
    this.#summary.error = run?.error ?? null
    if (run && !this.#stopped && this.#keeps(run.new_messages)) this.#newMessages = [...run.new_messages]
  }

  #keepText(step: Step, member: 'input' | 'output', value: unknown): void {
    const text = shortened(value, Math.min(MAX_TEXT_LENGTH, MAX_LENGTH - this.#length))
    if (text === '') return
    step[member] = text
    this.#grow(text.length)
  }

  /** Whether there is room for a value, which is then taken. */
  #keeps(value: unknown): boolean {
    const left = fits(value, MAX_LENGTH - this.#length)
    if (left < 0) return false
    this.#grow(MAX_LENGTH - this.#length - left)
    return true
  }

  #grow(by: number): void {
    if (this.#stopped) return
    this.#length += by
    this.#options.onGrown(by)
  }

  #elapsedMs(): number {
    return Math.round((performance.now() - this.#startedAt) * 10) / 10
  }
}

/** A run that goes on after a decision has no message of its own: it still answers the one before. */
function lastOfUser(history: Asked['input']['history']): readonly Said[] {
  const last = history.findLast(({ role, callerAgent }) => role === 'user' && callerAgent == null)
  return last ? [last] : []
}

type Said = Readonly<Record<string, unknown>>

function previewOf(message: string | readonly Said[]): string {
  if (typeof message === 'string') return message.slice(0, PREVIEW_LENGTH)
  const texts = message.flatMap(({ content }) => {
    if (!Array.isArray(content)) return [content]
    return content.map((part: { readonly text?: unknown } | null) => part?.text)
  })
  return texts
    .filter((text) => typeof text === 'string')
    .join(' ')
    .slice(0, PREVIEW_LENGTH)
}
