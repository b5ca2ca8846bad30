import type { EventSource, ModelEvent, RunEnded, UsageByModel } from '@bureau/protocol'
import { type Content, ModelStep, OpenStep, type RunSpan, type RunStep, type StepEnd } from './trace-step.ts'

const WENT_WELL: StepEnd = Object.freeze({ errorCode: null })

/** The steps of one run that are open now, whichever conversation they belong to. */
export class RunTrace {
  readonly root: RunSpan
  readonly #open = new Set<OpenStep>()
  readonly #modelSteps = new Map<EventSource, ModelStep>()
  readonly #toolSteps = new Map<string, OpenStep>()

  constructor(root: RunSpan) {
    this.root = root
  }

  /** A conversation with the user lies in the run itself, a nested one in the tool call that opened it. */
  conversation(callerAgent: string | null, callId: string | undefined): ConversationTrace {
    const tool = callerAgent === null ? undefined : this.#toolSteps.get(toolKey(callerAgent, callId ?? ''))
    return new ConversationTrace(this, tool?.span ?? this.root)
  }

  open(parent: RunSpan, step: RunStep): OpenStep {
    const opened = new OpenStep(parent.child(step), () => this.#open.delete(opened))
    this.#open.add(opened)
    return opened
  }

  openModel(parent: RunSpan, source: EventSource, step: RunStep): ModelStep {
    const opened = new ModelStep(parent.child(step), () => {
      this.#open.delete(opened)
      if (this.#modelSteps.get(source) === opened) this.#modelSteps.delete(source)
    })
    this.#open.add(opened)
    this.#modelSteps.set(source, opened)
    return opened
  }

  openTool(parent: RunSpan, step: RunStep & { readonly kind: 'tool' }): void {
    this.#toolSteps.set(toolKey(step.agent, step.callId), this.open(parent, step))
  }

  endTool(agent: string, callId: string, end: StepEnd): void {
    this.#toolSteps.get(toolKey(agent, callId))?.end(end)
    this.#toolSteps.delete(toolKey(agent, callId))
  }

  /** Called for every token, so it does next to nothing for most of them. */
  modelEvent(event: ModelEvent): void {
    this.#modelSteps.get(event.source)?.take(event)
  }

  /** Steps that are still open end as the run does, the innermost first. */
  end(run: RunEnded, spent: readonly UsageByModel[]): void {
    const errorCode = run.status === 'cancelled' ? 'cancelled' : (run.error?.code ?? null)
    for (const step of [...this.#open].toReversed()) step.end({ errorCode })
    this.root.end({ errorCode, run, spent, content: () => run.output })
  }
}

/** The steps of one conversation. */
export class ConversationTrace {
  readonly #run: RunTrace
  readonly #parent: RunSpan
  #inControl: OpenStep | undefined

  constructor(run: RunTrace, parent: RunSpan) {
    this.#run = run
    this.#parent = parent
  }

  /** An agent takes control; the one before it leaves. */
  enter({ agent, callerAgent }: EventSource): void {
    this.#inControl?.end(WENT_WELL)
    this.#inControl = this.#run.open(this.#parent, { kind: 'agent', agent, callerAgent })
  }

  /** The conversation is over. `errorCode` is null when it has an answer. */
  leave(errorCode: string | null): void {
    this.#inControl?.end({ errorCode })
  }

  modelAsked(source: EventSource, model: string, content: Content): ModelStep {
    return this.#run.openModel(this.#within, source, { kind: 'model', agent: source.agent, model, content })
  }

  toolStarted(agent: string, call: { tool: string; callId: string; content: Content }): void {
    this.#run.openTool(this.#within, { kind: 'tool', agent, ...call })
  }

  toolEnded(agent: string, callId: string, result: string): void {
    const errorCode = FAILED_TOOL.test(result) ? 'tool_failed' : null
    this.#run.endTool(agent, callId, { errorCode, content: () => result })
  }

  get #within(): RunSpan {
    return this.#inControl?.span ?? this.#parent
  }
}

/** A failed call returns an error text to the model; these are the prefixes of such texts. */
const FAILED_TOOL = /^(?:An error occurred while running the tool\.|Error: )/

function toolKey(agent: string, callId: string): string {
  return `${agent}\n${callId}`
}
