/** Values of the API description's examples: one small installation, told once. */

const run = {
  object: 'run',
  runId: 'run_01kaexample00000000000000',
  chatId: 'chat_01kaexample0000000000000',
  apiIntegrationId: 'int_01kaexample00000000000000',
  agent: 'CEO',
  usageRequestId: '7f0c2b1e',
  consumerId: 'u-77',
  status: 'completed',
  createdAt: '2026-11-20T22:10:11.120Z',
  startedAt: '2026-11-20T22:10:11.131Z',
  finishedAt: '2026-11-20T22:10:14.002Z',
  agencyVersion: '0f6d2c41b7a98e35',
  deadlineAt: '2026-11-20T22:40:11.120Z',
  cancel: null,
  error: null,
  usage: {
    request_count: 1,
    cached_tokens: 0,
    cache_write_tokens: 0,
    input_tokens: 50,
    output_tokens: 12,
    total_tokens: 62,
    total_cost: 0.0001,
  },
  lastEventId: '9',
  message: 'Summarise it',
}

const meta = {
  run_id: run.runId,
  chatId: run.chatId,
  aliasChatId: null,
  usageRequestId: run.usageRequestId,
  agent: run.agent,
  created_at: run.createdAt,
  resumed: false,
  replayed: false,
  resume_from: 0,
  events_url: `https://api.example.com/v1/runs/${run.runId}/events`,
}

const delta = {
  data: {
    type: 'raw_response_event',
    data: { type: 'response.output_text.delta', item_id: 'msg_1', delta: 'The report' },
    agent: run.agent,
    callerAgent: null,
  },
}

const messages = {
  new_messages: [
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'The report …' }], agent: run.agent },
  ],
  run_id: run.runId,
  chatId: run.chatId,
  status: 'completed',
  cancelled: false,
  usage: run.usage,
}

export const EXAMPLES = {
  completionRequest: {
    apiIntegrationId: run.apiIntegrationId,
    message: 'Summarise it',
    chatId: null,
    consumerId: run.consumerId,
    usageRequestId: run.usageRequestId,
    attachments: [{ type: 'input_file', file_url: 'https://files.example.com/r.pdf?sig=4f1c', filename: 'r.pdf' }],
  },
  completionStream: [
    `retry: 2000\nevent: meta\ndata: ${JSON.stringify(meta)}`,
    `id: 1\ndata: ${JSON.stringify(delta)}`,
    `id: 2\nevent: messages\ndata: ${JSON.stringify(messages)}`,
    'id: 3\nevent: end\ndata: [DONE]\n\n',
  ].join('\n\n'),
  integrationId: { apiIntegrationId: run.apiIntegrationId },
  chatId: { chatId: run.chatId },
  branch: { beforeRunId: run.runId, aliasChatId: 'order-7-again' },
  run,
  status: {
    object: 'chat_status',
    apiIntegrationId: run.apiIntegrationId,
    chatId: run.chatId,
    aliasChatId: null,
    chatState: 'idle',
    activeRunId: null,
    usageRequestId: run.usageRequestId,
    consumerId: run.consumerId,
    run,
    recovery: { action: 'use_result', eventsUrl: null, reason: 'the run completed' },
  },
  cancelled: {
    ok: true,
    run_id: run.runId,
    cancelled: true,
    cancel_mode: 'immediate',
    new_messages: [],
    run: { ...run, status: 'cancelled', cancel: { mode: 'immediate', requestedAt: '2026-11-20T22:10:12.500Z' } },
  },
  decisions: [{ callId: 'call_1', approve: false, reason: 'The order is too old.' }],
  approvals: {
    approvals: [
      {
        callId: 'call_1',
        tool: 'refund_order',
        arguments: '{"amount":250}',
        agent: 'Clerk',
        edit: false,
        approver: 'owner',
        expiresAt: '2026-11-27T22:10:11.000Z',
        decision: {
          approve: false,
          reason: 'The order is too old.',
          arguments: null,
          decidedBy: 'key_01kaexample00000000000000',
          decidedAt: '2026-11-20T22:20:11.000Z',
        },
      },
    ],
  },
  upload: {
    uploadId: 'upl_01kaexample00000000000000',
    path: '/app/mnt/uploads/01kaexample00000000000000/report.csv',
    name: 'report.csv',
    uploadUrl: 'https://api.example.com/v1/upload_content/upl_01kaexample00000000000000?token=dGhlLXRva2Vu',
    method: 'PUT',
    headers: { 'Content-Type': 'application/octet-stream' },
    maxBytes: 1042,
    expiresAt: '2026-11-20T23:10:11.000Z',
    status: 'pending',
  },
} as const
