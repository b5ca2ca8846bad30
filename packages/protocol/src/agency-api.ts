import { z } from 'zod'
import { HistoryItem, Message } from './message.ts'
import { Usage } from './usage.ts'

/** Characters; longer ones are never made. */
const MAX_TOKEN_LENGTH = 2_097_152

/** Items of a history that comes with a request. */
export const MAX_HISTORY = 20_000

/** What somebody else has named: repeated in answers, errors and logs. */
const Identifier = z.string().max(256)

/** Per-request model client override (seed, `client_config`). `litellm_keys` is an older name of `thirdparty_keys`. */
export const ClientConfig = z
  .object({
    base_url: z.string().nullish().describe('Model API base URL for this request.'),
    api_key: z.string().nullish().describe('Model API key for this request.'),
    default_headers: z.record(z.string(), z.string()).nullish().describe('Headers of the model requests.'),
    thirdparty_keys: z
      .record(z.string(), z.string().nullable())
      .nullish()
      .describe('Keys by provider, for thirdparty/... models.'),
    litellm_keys: z.record(z.string(), z.string().nullable()).nullish().describe('Alias of thirdparty_keys.'),
    model: z.string().nullish().describe('Model of every agent for this request.'),
    model_settings_extra_args: z.record(z.string(), z.unknown()).nullish().describe('Model settings for this request.'),
  })
  .meta({ id: 'ClientConfig' })
export type ClientConfig = z.infer<typeof ClientConfig>

const RequestId = z.string().regex(/^[\x21-\x7e]{1,128}$/, 'must be 1 to 128 printable ASCII characters without spaces')

/** Query of the runs of an agency. */
export const RunOfRequestQuery = z.object({
  request_id: RequestId.describe('Of the request that began the run.'),
})

/** The run that answers a request. */
export const RunOfRequest = z.object({ run_id: z.string(), request_id: z.string() }).meta({ id: 'RunOfRequest' })

/** What a person has decided about a call. */
const ApprovalAnswer = z
  .object({
    call_id: Identifier,
    approve: z.boolean(),
    reason: z.string().max(10_000).nullish().describe('Why the call is rejected; the model reads it.'),
    arguments: z
      .union([z.record(z.string(), z.unknown()), z.string()])
      .nullish()
      .describe('Other arguments, whole, as an object or as JSON text. Only where the request says `edit: true`.'),
    token: z.string().max(MAX_TOKEN_LENGTH).describe('Of the request for the approval, unchanged.'),
  })
  .meta({ id: 'ApprovalAnswer' })

/** Body of `get_response` and `get_response_stream`. Unknown members are ignored. */
export const RunRequest = z
  .object({
    message: z
      .union([z.string(), z.array(z.record(z.string(), z.unknown())).max(1_000)])
      .default([])
      .describe('The user message: text, or a non-empty list of Responses API input items. Not needed with approvals.'),
    chat_history: z.array(HistoryItem).max(MAX_HISTORY).nullish().describe('Earlier new_messages, in order.'),
    recipient_agent: Identifier.nullish().describe('The agent to address. Default: the first entry point.'),
    file_ids: z.array(Identifier).nullish().describe('Ids of files already uploaded to the model provider.'),
    file_urls: z
      .union([z.record(z.string(), z.string()), z.array(z.string())])
      .nullish()
      .describe('Files by name: URLs, or absolute local paths where the server allows them.'),
    additional_instructions: z.string().nullish().describe("Added to the addressed agent's instructions for this run."),
    user_context: z.record(z.string(), z.unknown()).nullish().describe('Readable by tools; never in the prompt.'),
    generate_chat_name: z.boolean().nullish().describe('True: the answer carries chat_name.'),
    client_config: ClientConfig.nullish(),
    approvals: z
      .array(ApprovalAnswer)
      .max(128)
      .nullish()
      .describe('Decisions about calls of chat_history that wait for them.'),
    on_disconnect: z
      .enum(['cancel', 'continue'])
      .nullish()
      .describe('continue: the run goes on when its client leaves, who may come back. Default: cancel.'),
    request_id: RequestId.nullish().describe(
      'With on_disconnect continue: the id of this request, unlike any other. Sent again, it gets the same run.',
    ),
  })
  .meta({ id: 'RunRequest' })
export type RunRequest = z.infer<typeof RunRequest>

/** A call that waits for a person's decision. */
const ApprovalRequest = z
  .object({
    call_id: z.string(),
    tool: z.string(),
    arguments: z.string().describe('As the model wrote them.'),
    agent: z.string(),
    agent_run_id: z.string(),
    expires_at: z.iso.datetime(),
    edit: z.boolean().describe('True: the decision may bring other arguments.'),
    token: z.string().optional().describe('Comes back with the decision.'),
  })
  .meta({ id: 'ApprovalRequest' })

/** Body of a non-streaming answer. */
export const RunResponse = z
  .object({
    response: z.unknown().describe('The final answer: text, or an object for structured output.'),
    new_messages: z.array(Message),
    usage: Usage.optional(),
    file_ids_map: z.record(z.string(), z.string()).optional(),
    chat_name: z.string().optional(),
    status: z.literal('waiting').optional().describe('The run goes on with the decisions about `approvals`.'),
    approvals: z.array(ApprovalRequest).optional(),
  })
  .meta({ id: 'RunResponse' })
export type RunResponse = z.infer<typeof RunResponse>

/** Body of a non-streaming answer, with status 200, when `file_urls` cannot be used: existing clients look for it. */
export const FileUrlsError = z
  .object({ error: z.string().describe('Why file_urls cannot be used.'), code: z.string() })
  .meta({ id: 'FileUrlsError' })
export type FileUrlsError = z.infer<typeof FileUrlsError>

export const CancelMode = z.enum(['immediate', 'after_turn'])

/** Body of `cancel_response_stream`. */
export const CancelRequestBody = z
  .object({
    run_id: Identifier.describe('From the first event of the stream.'),
    cancel_mode: CancelMode.nullish().describe('Default: immediate.'),
  })
  .meta({ id: 'CancelRequest' })
export type CancelRequestBody = z.infer<typeof CancelRequestBody>

export const CancelResponse = z
  .object({
    ok: z.boolean(),
    run_id: z.string(),
    cancelled: z.boolean(),
    cancel_mode: CancelMode,
    new_messages: z.array(Message),
    usage: Usage.optional(),
    timed_out: z.boolean(),
  })
  .meta({ id: 'CancelResponse' })
export type CancelResponse = z.infer<typeof CancelResponse>

/** One entry of a 422 answer: where, what, and the value that was sent. */
export const ValidationEntry = z
  .object({
    type: z.string(),
    loc: z.array(z.union([z.string(), z.number()])),
    msg: z.string(),
    input: z.unknown(),
    ctx: z.record(z.string(), z.unknown()).optional(),
  })
  .meta({ id: 'ValidationError' })
export type ValidationEntry = z.infer<typeof ValidationEntry>

export const ValidationErrorBody = z
  .object({ detail: z.array(ValidationEntry), error: z.string(), code: z.string() })
  .meta({ id: 'HTTPValidationError' })
export type ValidationErrorBody = z.infer<typeof ValidationErrorBody>

/** Body of any other refusal. `detail` says the same as `error`; some clients read that. */
export const Refusal = z.object({ detail: z.string().optional(), error: z.string(), code: z.string() })

const Position = z.object({ x: z.number(), y: z.number() })

const AgentNode = z.object({
  id: z.string(),
  type: z.literal('agent'),
  position: Position,
  data: z.object({
    label: z.string(),
    description: z.string(),
    isEntryPoint: z.boolean(),
    toolCount: z.int(),
    tools: z.array(
      z.object({
        name: z.string(),
        type: z.string(),
        description: z.string(),
        inputSchema: z.looseObject({}).optional().describe('Of function tools.'),
      }),
    ),
    instructions: z.string().describe('Empty unless the server exposes them.'),
    model: z.string(),
    hasSubagents: z.boolean(),
    capabilities: z.array(z.string()),
    conversationStarters: z.array(z.string()).optional(),
    quickReplies: z.array(z.string()).optional(),
  }),
})

const ToolNode = z.object({
  id: z.string(),
  type: z.literal('tool'),
  position: Position,
  data: z.object({ label: z.string(), description: z.string(), type: z.string(), parentAgent: z.string() }),
})

const Edge = z.object({
  id: z.string(),
  source: z.string(),
  target: z.string(),
  type: z.enum(['owns', 'communication']),
  data: z
    .object({
      label: z.string(),
      bidirectional: z.boolean(),
      kinds: z
        .array(z.enum(['message', 'handoff']))
        .describe('`message`: the source asks the target. `handoff`: the target takes over the conversation.'),
    })
    .optional(),
})

/** The answer of `get_metadata`: the agency as a graph. Positions are cosmetic. */
export const AgencyMetadata = z
  .object({
    nodes: z.array(z.union([AgentNode, ToolNode])),
    edges: z.array(Edge),
    metadata: z.object({
      agencyName: z.string(),
      totalAgents: z.int(),
      totalTools: z.int(),
      agents: z.array(z.string()),
      entryPoints: z.array(z.string()),
      sharedInstructions: z.string(),
      layoutAlgorithm: z.string(),
    }),
    agency_swarm_version: z.string(),
    bureau_version: z.string(),
    allowed_local_file_dirs: z
      .array(z.string())
      .nullable()
      .describe('Directories that can be used now; null when local files are off.'),
  })
  .meta({ id: 'AgencyMetadata' })
export type AgencyMetadata = z.output<typeof AgencyMetadata>
