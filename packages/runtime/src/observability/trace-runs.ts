import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api'
import type { RunObserver, RunSpan, RunStep, StepEnd } from '@bureau/framework'
import type { Usage } from '@bureau/protocol'
import { contentAttribute, GEN_AI, genAiMessages, providerOf } from './gen-ai.ts'
import type { RunRoot } from './run-steps.ts'

export type TracedRuns = {
  readonly tracer: Tracer
  /** True: what people, models and tools say becomes part of the trace. */
  readonly traceContent: boolean
  /** An agency's name in the routes. */
  readonly nameOf: (agency: RunRoot['agency']) => string
}

/**
 * Makes OpenTelemetry spans of runs, by the conventions for generative AI: the run, in it the agents' stays, in those
 * their model requests and tool calls, and in a message to another agent that agent's work.
 *
 * Parents are handed on explicitly, so no context manager is needed and nothing global is touched. `traceParent` is the
 * caller's header of this name, if there is one.
 */
export function traceRuns(traced: TracedRuns, traceParent: unknown): RunObserver {
  const parent = traceContextOf(traceParent)
  return (run) => new TracedStep(traced, parent, run)
}

class TracedStep implements RunSpan {
  readonly #traced: TracedRuns
  readonly #step: RunStep
  readonly #span: Span
  readonly #context: Context
  readonly #startedAt = performance.now()

  constructor(traced: TracedRuns, parent: Context, step: RunStep) {
    this.#traced = traced
    this.#step = step
    const kind = step.kind === 'model' ? SpanKind.CLIENT : SpanKind.INTERNAL
    this.#span = traced.tracer.startSpan(nameOf(step, traced), { kind, attributes: attributesOf(step, traced) }, parent)
    this.#context = trace.setSpan(parent, this.#span)
    if (this.#readsContent && step.kind !== 'agent') this.#span.setAttributes(askedContent(step))
  }

  child(step: RunStep): RunSpan {
    return new TracedStep(this.#traced, this.#context, step)
  }

  firstOutput(): void {
    this.#span.setAttribute(GEN_AI.firstChunkSeconds, (performance.now() - this.#startedAt) / 1_000)
  }

  end(end: StepEnd): void {
    this.#span.setAttributes(outcomeOf(end))
    if (this.#readsContent && end.content) this.#span.setAttributes(answeredContent(this.#step, end.content()))
    if (end.errorCode !== null) this.#span.setStatus({ code: SpanStatusCode.ERROR, message: end.errorCode })
    this.#span.end()
  }

  get #readsContent(): boolean {
    return this.#traced.traceContent && this.#span.isRecording()
  }
}

function nameOf(step: RunStep, { nameOf: nameOfAgency }: TracedRuns): string {
  switch (step.kind) {
    case 'run':
      return `invoke_workflow ${nameOfAgency(step.agency)}`
    case 'agent':
      return `invoke_agent ${step.agent}`
    case 'model':
      return `chat ${step.model}`
    case 'tool':
      return `execute_tool ${step.tool}`
  }
}

function attributesOf(step: RunStep, { nameOf: nameOfAgency }: TracedRuns): Attributes {
  switch (step.kind) {
    case 'run':
      return {
        [GEN_AI.operation]: 'invoke_workflow',
        [GEN_AI.workflow]: nameOfAgency(step.agency),
        'bureau.run.id': step.runId,
      }
    case 'agent':
      return {
        [GEN_AI.operation]: 'invoke_agent',
        [GEN_AI.agent]: step.agent,
        ...(step.callerAgent !== null && { 'bureau.caller_agent.name': step.callerAgent }),
      }
    case 'model':
      return {
        [GEN_AI.operation]: 'chat',
        [GEN_AI.provider]: providerOf(step.model),
        [GEN_AI.requestModel]: step.model,
        [GEN_AI.agent]: step.agent,
      }
    case 'tool':
      return {
        [GEN_AI.operation]: 'execute_tool',
        [GEN_AI.tool]: step.tool,
        [GEN_AI.toolType]: 'function',
        [GEN_AI.toolCallId]: step.callId,
        [GEN_AI.agent]: step.agent,
      }
  }
}

function outcomeOf({ errorCode, response, run, spent }: StepEnd): Attributes {
  return {
    ...(errorCode !== null && { 'error.type': errorCode }),
    ...(run && { 'bureau.run.status': run.status }),
    ...(spent && totalsOf(spent)),
    ...(response && {
      ...(response.id !== null && { [GEN_AI.responseId]: response.id }),
      ...(response.model !== null && { [GEN_AI.responseModel]: response.model }),
      ...(response.status !== null && { [GEN_AI.finishReasons]: [response.status] }),
      [GEN_AI.inputTokens]: response.usage.input_tokens,
      [GEN_AI.outputTokens]: response.usage.output_tokens,
      [GEN_AI.cachedTokens]: response.usage.cached_tokens,
      [GEN_AI.cacheWriteTokens]: response.usage.cache_write_tokens,
      [GEN_AI.reasoningTokens]: response.usage.reasoning_tokens ?? 0,
    }),
  }
}

function totalsOf(spent: NonNullable<StepEnd['spent']>): Attributes {
  const sum = (count: (usage: Usage) => number): number => spent.reduce((total, { usage }) => total + count(usage), 0)
  return {
    [GEN_AI.inputTokens]: sum((each) => each.input_tokens),
    [GEN_AI.outputTokens]: sum((each) => each.output_tokens),
    'bureau.run.cost_usd': sum((each) => each.total_cost),
  }
}

function askedContent(step: Exclude<RunStep, { kind: 'agent' }>): Attributes {
  const content = step.content()
  if (step.kind === 'tool') return contentAttribute(GEN_AI.toolArguments, content)
  if (step.kind === 'run') return contentAttribute(GEN_AI.inputMessages, genAiMessages(content, 'user'))
  const { instructions, input } = content as { instructions: string; input: unknown }
  return {
    ...contentAttribute(GEN_AI.instructions, [{ type: 'text', content: instructions }]),
    ...contentAttribute(GEN_AI.inputMessages, genAiMessages(input, 'user')),
  }
}

function answeredContent(step: RunStep, content: unknown): Attributes {
  if (step.kind === 'tool') return contentAttribute(GEN_AI.toolResult, content)
  return contentAttribute(GEN_AI.outputMessages, genAiMessages(content, 'assistant'))
}

/** Version 00 (W3C Trace Context, section 3.2); later versions begin the same way. */
const TRACE_PARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/

/** The trace that a caller's `traceparent` header belongs to; a new one without it. */
function traceContextOf(header: unknown): Context {
  const found = typeof header === 'string' ? TRACE_PARENT.exec(header) : null
  if (!found) return ROOT_CONTEXT
  const [, traceId = '', spanId = '', flags = ''] = found
  const traceFlags = Number.parseInt(flags, 16) & 1
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true })
}
