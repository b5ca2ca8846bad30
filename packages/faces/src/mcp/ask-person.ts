import type { ApprovalRequest } from '@bureau/protocol'
import type { CallToolResult, InputRequiredResult, ServerContext } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { jsonOrText } from '../answer.ts'
import type { FaceDecision } from '../face-host.ts'
import { approvalText } from '../openai/approval-text.ts'

/** The SDK, loaded when the first request comes: most servers never get one. */
export type McpSdk = typeof import('@modelcontextprotocol/server')

export type ToolResult = CallToolResult | InputRequiredResult

/** What a client brings back with the decisions. It is read as what it is, the client's: tokens are sealed, and the run has an owner. */
const Waiting = z.object({
  run: z.string().max(128),
  thread: z.string().max(128),
  calls: z.array(z.object({ id: z.string().max(256), arguments: z.string(), token: z.string().optional() })).max(128),
})
type Waiting = z.output<typeof Waiting>

const Capabilities = z.object({
  elicitation: z.object({ form: z.unknown().optional(), url: z.unknown().optional() }).optional(),
})

const Answer = z.discriminatedUnion('action', [
  z.object({
    action: z.literal('accept'),
    content: z.object({
      approve: z.boolean(),
      reason: z.string().max(10_000).optional(),
      arguments: z.string().optional(),
    }),
  }),
  z.object({ action: z.literal('decline') }),
])

type GoesOn = Pick<Waiting, 'run' | 'thread'> & { readonly decisions: readonly FaceDecision[] }

/** How the user of a client is asked to decide about calls that wait (2026-07-28, `input_required`). */
export type Asking = {
  /** What the user has decided; undefined in a call that begins. */
  readonly decided: () => GoesOn | undefined
  readonly ask: (approvals: readonly ApprovalRequest[], at: Pick<Waiting, 'run' | 'thread'>) => InputRequiredResult
}

/** Undefined for clients that cannot ask: of an older revision, or without a form for it. */
export function askingOf(sdk: McpSdk, { mcpReq }: ServerContext): Asking | undefined {
  const envelope: Readonly<Record<string, unknown>> = mcpReq.envelope ?? {}
  const form = Capabilities.safeParse(envelope[sdk.CLIENT_CAPABILITIES_META_KEY]).data?.elicitation
  // A client that says nothing closer has forms.
  if (!form || (form.url !== undefined && form.form === undefined)) return undefined
  return {
    decided: () => {
      const state = mcpReq.requestState<string>()
      if (state === undefined) return undefined
      const waiting = Waiting.safeParse(jsonOrText(state)).data
      if (!waiting) throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, 'Invalid requestState')
      const { run, thread, calls } = waiting
      return {
        run,
        thread,
        decisions: calls.flatMap((call, at) => decisionOf(call, mcpReq.inputResponses?.[keyOf(at)])),
      }
    },
    ask: (approvals, at) => {
      const calls = approvals.map(({ call_id: id, arguments: args, token }) => ({
        id,
        arguments: args,
        ...(token !== undefined && { token }),
      }))
      const requests = approvals.map(
        (approval, index) => [keyOf(index), sdk.inputRequired.elicit(formOf(approval))] as const,
      )
      return sdk.inputRequired({
        inputRequests: Object.fromEntries(requests),
        requestState: JSON.stringify({ ...at, calls } satisfies Waiting),
      })
    },
  }
}

const keyOf = (at: number): string => `approval_${at + 1}`

function formOf(approval: ApprovalRequest) {
  const { agent, arguments: args, edit } = approval
  const edited = { type: 'string', title: 'Arguments', description: 'Change them here.', default: args } as const
  return {
    message: `${agent} asks: ${approvalText(approval, undefined)}`,
    requestedSchema: {
      type: 'object' as const,
      properties: {
        approve: { type: 'boolean', title: 'Approve', description: 'Whether the call may be carried out.' } as const,
        reason: { type: 'string', title: 'Reason', description: 'Why not: the agent reads it.' } as const,
        ...(edit && { arguments: edited }),
      },
      required: ['approve'],
    },
  }
}

/** Whoever closes the form has decided nothing. */
function decisionOf(call: Waiting['calls'][number], response: unknown): FaceDecision[] {
  const answer = Answer.safeParse(response).data
  if (!answer) return []
  const of = { callId: call.id, ...(call.token !== undefined && { token: call.token }) }
  if (answer.action === 'decline') return [{ ...of, approve: false }]
  const { approve, reason, arguments: given } = answer.content
  const isChanged = approve && given !== undefined && given !== call.arguments
  return [{ ...of, approve, ...(reason && { reason }), ...(isChanged && { arguments: jsonOrText(given) }) }]
}
