import { randomUUID } from 'node:crypto'
import { ConfigError, type Message, type RunEnded, type RunError, type RunEvent, type WireItem } from '@bureau/protocol'
import { AnyFunction, type OptionChecks, present, readOptions } from './options.ts'
import { Agent as HttpAgent } from 'undici'
import { z } from 'zod'
import { Agency } from './agency/agency.ts'
import { Agent } from './agency/agent.ts'
import { otherCopy } from './agency/copies.ts'
import type { ModelObject } from './agency/model-object.ts'
import { problemOfModel } from './agency/refused-definitions.ts'
import { McpConnections } from './mcp/connections.ts'
import { DEFAULT_MODEL, DEMO_MODEL, type ModelApi, VENDOR_BASE_URL } from './models/resolve-model.ts'
import type { OnToolFailure, RunEnvironment, RunSink } from './run/run-setup.ts'
import { runAgency } from './run-agency.ts'
import { RunControl } from './run/run-control.ts'
import type { RunInput } from './run/run-input.ts'

export type AskOptions = Pick<RunInput, 'agent' | 'additionalInstructions' | 'userContext'> & {
  /** The `new_messages` of earlier answers, in order. */
  readonly history?: readonly Message[]
  /** Key of the default provider. Without it and without `baseUrl`, agents that name no model use the demo model. */
  readonly apiKey?: string | undefined
  /** Base URL of a compatible provider, with the version segment. */
  readonly baseUrl?: string | undefined
  /** What the provider at `baseUrl` speaks. Default `responses`. */
  readonly api?: ModelApi
  /** Model of agents that name none: a name, or an object, such as a `ScriptedModel` in tests. Default `gpt-5-mini`. */
  readonly model?: string | ModelObject | undefined
  /** Reads the key of a `thirdparty/...` provider, e.g. `ANTHROPIC_API_KEY`. */
  readonly readKey?: (name: string) => string | undefined
  /** Cancels the run when it aborts. Null, as tools get it outside a run: nothing does. */
  readonly signal?: AbortSignal | null
  /** Told of every failure with its cause, which the answer does not carry. */
  readonly onFailure?: (error: unknown) => void
  /** Told why a tool has thrown; the run goes on. */
  readonly onToolFailure?: OnToolFailure
}

const text = z.string().optional()

const AskChecks = z.strictObject({
  agent: text,
  additionalInstructions: text,
  userContext: z.record(z.string(), z.unknown()).optional(),
  history: z.array(z.unknown()).optional(),
  apiKey: text,
  baseUrl: text,
  api: z.enum(['responses', 'chat_completions']).optional(),
  model: z
    .custom((model) => problemOfModel(model) === undefined, { error: ({ input }) => problemOfModel(input) })
    .optional(),
  readKey: AnyFunction.optional(),
  signal: z.instanceof(AbortSignal).nullish(),
  onFailure: AnyFunction.optional(),
  onToolFailure: AnyFunction.optional(),
} satisfies OptionChecks<AskOptions>)

type Question = { readonly agency: Agency; readonly message: string | readonly WireItem[] }

const QuestionChecks = z.strictObject({
  agency: z.instanceof(Agency, { error: ({ input }) => otherCopy(input) ?? notAnAgency(input) }),
  message: z.union([z.string(), z.array(z.unknown())], { error: 'must be a text, or a list of items' }),
} satisfies OptionChecks<Question>)

const notAnAgency = (value: unknown): string =>
  `must be an Agency${value instanceof Agent ? ', not an Agent' : ''}: new Agency({ entryPoint: … })`

/** @throws ConfigError a mistake of the caller's, which must not become a failed run. */
function check(where: string, question: Question, options: AskOptions): void {
  readOptions(where, QuestionChecks, question)
  const { agent } = readOptions(where, AskChecks, options)
  const { agents } = question.agency
  if (agent === undefined || agents.has(agent)) return
  const names = [...agents.keys()].join(', ')
  throw new ConfigError(`${where}: there is no agent ${JSON.stringify(agent)}. Available agents: ${names}.`)
}

/** A reader this many events behind holds the model back. */
const MAX_UNREAD_EVENTS = 1_000

/** An agency, and what each of its agents answers with, by name. */
type Answering<Answers> = Agency & { readonly '~answers'?: Answers }

/**
 * How a run ended. `output` is the agents' answer, or null when there is none. When an input guardrail trips, it is the guardrail's
 * text, even if the agent answers with another type; with `raiseInputGuardrailError` the run fails instead.
 */
type Asked<Output> = RunEnded &
  (
    | { readonly status: 'completed'; readonly output: Output; readonly error: null }
    | { readonly status: 'failed'; readonly output: Output | null; readonly error: RunError }
    | { readonly status: 'cancelled' | 'waiting'; readonly output: Output | null; readonly error: null }
  )

/**
 * Runs an agency once in this process, without a server: for scripts and tests. A failed run is an answer too, with an
 * `error`. Connections to tool servers are closed when it returns.
 *
 * @throws ConfigError an argument or an option is not valid, or there is no such agent.
 */
export async function ask<Answers extends object, Name extends keyof Answers & string = keyof Answers & string>(
  agency: Answering<Answers>,
  message: string | readonly WireItem[],
  options: AskOptions & { readonly agent?: Name } = {},
): Promise<Asked<Answers[Name]>> {
  check('ask', { agency, message }, options)
  const ended = await execute(agency, message, { options, sink: NO_READER, control: new RunControl() })
  return ended as Asked<Answers[Name]>
}

/**
 * The same, event by event: `run.started` first, `run.ended` last. The run begins when the first event is asked for;
 * leaving the loop early cancels it.
 */
export async function* askStreamed(
  agency: Agency,
  message: string | readonly WireItem[],
  options: AskOptions = {},
): AsyncGenerator<RunEvent, void> {
  check('askStreamed', { agency, message }, options)
  const unread = new UnreadEvents()
  const control = new RunControl()
  const ended = execute(agency, message, { options, sink: unread, control })
  try {
    yield* unread.read()
  } finally {
    control.cancel('immediate')
    unread.abandon()
    await ended
  }
}

type Execution = { readonly options: AskOptions; readonly sink: RunSink; readonly control: RunControl }

async function execute(
  agency: Agency,
  message: string | readonly WireItem[],
  { options, sink, control }: Execution,
): Promise<RunEnded> {
  const { history = [], agent, additionalInstructions, userContext, signal, onFailure, onToolFailure } = options
  const input: RunInput = { message, history, ...present({ agent, additionalInstructions, userContext }) }
  const cancel = (): void => control.cancel('immediate')
  if (signal?.aborted) cancel()
  signal?.addEventListener('abort', cancel)
  await using environment = openEnvironment(options)
  const ended = await runAgency(agency, input, {
    runId: randomUUID(),
    sink,
    control,
    environment,
    onFailure,
    onToolFailure,
  })
  signal?.removeEventListener('abort', cancel)
  return ended
}

/** What one run needs of its process; disposing it closes every connection. */
function openEnvironment(options: AskOptions): RunEnvironment & AsyncDisposable {
  const { api = 'responses', readKey } = options
  // A variable that is set to nothing counts as absent, as it does for servers.
  const apiKey = options.apiKey || undefined
  const baseUrl = options.baseUrl || undefined
  const isOffline = apiKey === undefined && baseUrl === undefined
  const dispatcher = new HttpAgent()
  const mcp = new McpConnections()
  return {
    models: {
      api,
      baseUrl: baseUrl ?? VENDOR_BASE_URL,
      apiKey,
      defaultModel: options.model || (isOffline ? DEMO_MODEL : DEFAULT_MODEL),
      readKey: (name) => readKey?.(name) || undefined,
      howToSet: (name) => howToGive(name, readKey),
      dispatcher,
      callerDispatcher: dispatcher,
      checkCallerUrl: () => {}, // There is no caller: whoever writes the script chooses the addresses.
    },
    mcp,
    now: Date.now,
    [Symbol.asyncDispose]: async () => {
      await mcp.close()
      await dispatcher.destroy()
    },
  }
}

/** A script that only sets the variable goes on without it: nothing is read from the environment here. */
function howToGive(name: string, readKey: AskOptions['readKey']): string {
  if (name === 'OPENAI_API_KEY') return `give the option apiKey, such as process.env['${name}']`
  return readKey === undefined
    ? `set ${name} and give the option readKey, such as (name) => process.env[name]`
    : `set ${name}`
}

const NO_READER: RunSink = { emit: () => {}, ready: () => undefined }

/** The events of a run until its one reader takes them. */
class UnreadEvents implements RunSink {
  #events: RunEvent[] = []
  #arrived = Promise.withResolvers<void>()
  #taken = Promise.withResolvers<void>()
  #abandoned = false

  emit(event: RunEvent): void {
    if (this.#abandoned) return
    this.#events.push(event)
    this.#arrived.resolve()
  }

  ready(): Promise<void> | undefined {
    return this.#events.length < MAX_UNREAD_EVENTS ? undefined : this.#taken.promise
  }

  /** Returns after `run.ended`. */
  async *read(): AsyncGenerator<RunEvent, void> {
    for (;;) {
      await this.#arrived.promise
      for (const event of this.#take()) {
        yield event
        if (event.type === 'run.ended') return
      }
    }
  }

  /** The run is no longer held back, and its events are dropped. */
  abandon(): void {
    this.#abandoned = true
    this.#take()
  }

  #take(): readonly RunEvent[] {
    const events = this.#events
    this.#events = []
    this.#arrived = Promise.withResolvers<void>()
    this.#taken.resolve()
    this.#taken = Promise.withResolvers<void>()
    return events
  }
}
