import { z } from 'zod'
import { Message } from './message.ts'
import { Usage } from './usage.ts'

/** The latest runs of a self-hosted server, as `GET /console/runs` shows them to its operator. */

const RecentRunStatus = z.enum(['running', 'completed', 'failed', 'cancelled', 'waiting'])

const Text = z.string().describe('Text or JSON, cut after 16,384 characters.')

export const RecentRunStep = z
  .object({
    id: z.int(),
    parent: z.int().nullable().describe('The step within which this one lies; null: the run itself.'),
    kind: z.enum(['agent', 'model', 'tool']),
    name: z.string().describe('Of the agent, the model or the tool.'),
    agent: z.string(),
    call_id: z.string().optional(),
    start_ms: z.number().describe('Since the beginning of the run.'),
    first_output_ms: z.number().optional().describe('Of model steps: since the beginning of the step.'),
    duration_ms: z.number().nullable().describe('Null while it lasts.'),
    error_code: z.string().nullable(),
    failure: z.string().optional().describe('What was thrown, for the operator.'),
    usage: Usage.optional(),
    input: Text.optional().describe(
      'Arguments of a tool; the prompt of a model where the server exposes instructions.',
    ),
    output: Text.optional(),
  })
  .meta({ id: 'RecentRunStep' })
export type RecentRunStep = z.output<typeof RecentRunStep>

export const RecentRun = z
  .object({
    run_id: z.string(),
    agency: z.string().describe('Its name in the routes.'),
    agency_version: z.string().describe('Another one when the definition of the agency is.'),
    agent: z.string().describe('The agent that was addressed.'),
    user_id: z.string().nullable(),
    status: RecentRunStatus,
    message: z.string().describe('The beginning of what the user wrote.'),
    started_at: z.iso.datetime(),
    duration_ms: z.number().nullable().describe('Null while it lasts.'),
    model_calls: z.int(),
    tool_calls: z.int(),
    usage: Usage.nullable(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    failure: z.string().nullable().describe('What was thrown, for the operator.'),
  })
  .meta({ id: 'RecentRun' })
export type RecentRun = z.output<typeof RecentRun>

export const RecentRunDetail = RecentRun.extend({
  steps: z.array(RecentRunStep),
  steps_left_out: z.int().describe('Steps that found no more room.'),
  request: z
    .object({
      message: z.union([z.string(), z.array(z.looseObject({}))]),
      chat_history: z.array(Message),
      user_context: z.record(z.string(), z.unknown()).nullable(),
      additional_instructions: z.string().nullable(),
    })
    .nullable()
    .describe('What was sent, without keys; null when it was too long to keep.'),
  new_messages: z.array(Message).nullable().describe('Null while the run lasts, and when they were too long to keep.'),
}).meta({ id: 'RecentRunDetail' })
export type RecentRunDetail = z.output<typeof RecentRunDetail>

export const RecentRunsQuery = z.object({
  agency: z.string().max(256).optional(),
  status: RecentRunStatus.optional(),
})

export const RecentRunList = z
  .object({ runs: z.array(RecentRun).describe('Newest first.') })
  .meta({ id: 'RecentRunList' })

/** One tool of an agent, called by the operator and outside any run. */
export const RunToolRequest = z
  .object({
    agency: z.string().describe('Its name in the routes.'),
    agent: z.string(),
    tool: z.string(),
    arguments: z.record(z.string(), z.unknown()).default({}),
    user_context: z.record(z.string(), z.unknown()).default({}).describe('Added to what the agency gives its tools.'),
  })
  .meta({ id: 'RunToolRequest' })

export const RunToolAnswer = z
  .object({
    output: z.unknown().describe('What the tool returned; null when it has thrown.'),
    failure: z.string().nullable().describe('What was thrown, for the operator.'),
    duration_ms: z.number(),
  })
  .meta({ id: 'RunToolAnswer' })
export type RunToolAnswer = z.output<typeof RunToolAnswer>
