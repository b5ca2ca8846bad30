import { z } from 'zod'
import { Time } from './platform-fields.ts'

/** Calls of runs of the hosted platform about which a person decides. */

const Decision = z
  .object({
    approve: z.boolean(),
    reason: z.string().nullable(),
    arguments: z.string().nullable().describe('Other arguments than the model wrote, as JSON text.'),
    decidedBy: z
      .string()
      .describe('The API key; `consumer:<integration>:<consumer>`; `expiry` when nobody has decided in time.'),
    decidedAt: Time,
  })
  .meta({ id: 'ApprovalDecision' })

export const RunApproval = z
  .object({
    callId: z.string(),
    tool: z.string(),
    arguments: z.string().describe('As the model wrote them.'),
    agent: z.string(),
    edit: z.boolean().describe('True: a decision may bring other arguments.'),
    approver: z
      .enum(['owner', 'consumer'])
      .describe('consumer: the consumer who has asked may decide too. owner: API keys alone.'),
    expiresAt: Time.describe('When the call counts as rejected.'),
    decision: Decision.nullable(),
  })
  .meta({ id: 'RunApproval' })
export type RunApproval = z.output<typeof RunApproval>

export const RunApprovals = z.object({ approvals: z.array(RunApproval) }).meta({ id: 'RunApprovals' })
export type RunApprovals = z.output<typeof RunApprovals>

const Decided = z.strictObject({
  callId: z.string().min(1).max(256),
  approve: z.boolean(),
  reason: z.string().max(10_000).nullish().describe('Why the call is rejected; the model reads it.'),
  arguments: z
    .union([z.record(z.string(), z.unknown()), z.string()])
    .nullish()
    .describe('Other arguments, whole, as an object or as JSON text. Only where the call says `edit: true`.'),
})

export const DecideApprovals = z
  .array(Decided, {
    error: ({ code }) =>
      code === 'invalid_type' ? 'Send a list of decisions, such as [{"callId":"call_1","approve":true}].' : undefined,
  })
  .min(1)
  .max(128)
  .meta({ id: 'DecideApprovals' })
export type DecideApprovals = z.output<typeof DecideApprovals>
