import { type Agency, looseHalf, type RunInput } from '@bureau/framework'
import { isMessage, MAX_HISTORY, RunRequest } from '@bureau/protocol'
import { parseJson } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { toClientConfig } from '../../agencies/check-client-config.ts'
import { withFiles } from '../../agencies/read-files.ts'
import { logSkippedOverrides } from '../../agencies/skipped-overrides.ts'
import type { Answers } from '../../approvals/approvals.ts'
import type { ServerContext } from '../../context.ts'
import { InvalidBody, parseBody } from '../../http/invalid-body.ts'
import type { ServedAgency } from '../face.ts'

/** A request body, checked. @throws InvalidBody */
export function readRunRequest(agency: Agency, body: unknown): RunRequest {
  const request = parseRequest(agency, body)
  requireWhole(request)
  return request
}

/** No rule of the schema is about the history and anything else, so it does not look at a history without a flaw, nor copies it. */
function parseRequest(agency: Agency, body: unknown): RunRequest {
  const schema = requestSchema(agency)
  const history = (body as { readonly chat_history?: unknown } | null | undefined)?.chat_history
  const isGood = Array.isArray(history) && history.length <= MAX_HISTORY && history.every(isMessage)
  if (!isGood) return parseBody(schema, body)
  const { chat_history: _history, ...rest } = body as Readonly<Record<string, unknown>>
  return { ...parseBody(schema, rest), chat_history: history }
}

/** Providers refuse the output of a call that they do not see, and a call without its output. */
function requireWhole({ message, chat_history: history }: RunRequest): void {
  const loose = typeof message === 'string' ? undefined : looseHalf(message, history ?? [])
  if (!loose) return
  const { at, side } = loose
  const msg =
    side === 'output'
      ? 'chat_history does not hold what this item answers; send the call with it'
      : 'this call has no output; send the output behind it, or the call in chat_history'
  throw new InvalidBody([{ type: 'value_error', loc: ['body', 'message', at], msg, input: message[at] }])
}

const MAX_FILE_IDS = 50

const schemas = new WeakMap<Agency, z.ZodType<RunRequest>>()

/** The wire schema plus the rules that depend on the agency and on more than one field. */
function requestSchema(agency: Agency): z.ZodType<RunRequest> {
  const known = schemas.get(agency)
  if (known) return known
  const names = [...agency.agents.keys()]
  const schema = RunRequest.superRefine((request, context) => {
    const hasFiles = Boolean(request.file_ids?.length) || Object.keys(request.file_urls ?? {}).length > 0
    const decides = Boolean(request.approvals?.length)
    if (request.message.length === 0 && !decides && !(hasFiles && typeof request.message === 'string')) {
      context.addIssue({ code: 'custom', path: ['message'], message: 'message cannot be empty' })
    }
    if ((request.file_ids?.length ?? 0) > MAX_FILE_IDS) {
      context.addIssue({ code: 'custom', path: ['file_ids'], message: `at most ${MAX_FILE_IDS} files are allowed` })
    }
    const recipient = request.recipient_agent
    if (recipient && !agency.agents.has(recipient)) {
      const message = `there is no agent '${recipient}'. Available agents: ${names.join(', ')}`
      context.addIssue({ code: 'custom', path: ['recipient_agent'], message })
    }
  })
  schemas.set(agency, schema)
  return schema
}

/**
 * What was decided. A new message leaves nothing to wait for: calls that it brings no decision about are rejected.
 *
 * @throws InvalidBody arguments are neither an object nor the text of one.
 */
export function answersOf({ approvals, message }: RunRequest): Answers {
  const list = (approvals ?? []).map(({ token, call_id: callId, approve, reason, arguments: given }, at) => ({
    token,
    callId,
    approve,
    ...(reason != null && { reason }),
    ...(given != null && { arguments: typeof given === 'string' ? parsedArguments(given, at) : given }),
  }))
  return { list, others: message.length > 0 ? 'reject' : 'wait', lenient: false }
}

function parsedArguments(text: string, at: number): unknown {
  try {
    return parseJson(Buffer.from(text))
  } catch {
    const loc = ['body', 'approvals', at, 'arguments']
    throw new InvalidBody([
      { type: 'json_invalid', loc, msg: 'must be an object, or the JSON text of one', input: text },
    ])
  }
}

/** What a run is given of a body that was checked. The log of the request says what is of no use in it. */
export function toRunInput(
  { agency, context }: ServedAgency,
  { log: requestLog }: FastifyRequest,
  body: RunRequest,
): RunInput {
  const log = requestLog as ServerContext['log']
  const clientConfig = body.client_config && toClientConfig(body.client_config)
  if (clientConfig) logSkippedOverrides(agency, clientConfig, { models: context.environment.models, log })
  const input = {
    message: body.message,
    history: body.chat_history ?? [],
    ...(body.recipient_agent && { agent: body.recipient_agent }),
    ...(body.additional_instructions && { additionalInstructions: body.additional_instructions }),
    ...(body.user_context && { userContext: body.user_context }),
    ...(clientConfig && { clientConfig }),
    ...(body.generate_chat_name && { generateChatName: true }),
  }
  return withFiles(input, body, { ...context.files, log })
}
