import { ServiceError } from '@bureau/protocol'
import { problemSentence, publicError } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'

/** Errors of the protocol (specification 5.4) and of JSON-RPC: the code there, the status over HTTP, and its name in gRPC. */
const A2A_ERRORS = {
  TASK_NOT_FOUND: { code: -32001, http: 404, grpc: 'NOT_FOUND' },
  TASK_NOT_CANCELABLE: { code: -32002, http: 400, grpc: 'FAILED_PRECONDITION' },
  UNSUPPORTED_OPERATION: { code: -32004, http: 400, grpc: 'FAILED_PRECONDITION' },
  CONTENT_TYPE_NOT_SUPPORTED: { code: -32005, http: 400, grpc: 'INVALID_ARGUMENT' },
  VERSION_NOT_SUPPORTED: { code: -32009, http: 400, grpc: 'FAILED_PRECONDITION' },
  INVALID_JSON: { code: -32700, http: 400, grpc: 'INVALID_ARGUMENT' },
  INVALID_REQUEST: { code: -32600, http: 400, grpc: 'INVALID_ARGUMENT' },
  METHOD_NOT_FOUND: { code: -32601, http: 404, grpc: 'NOT_FOUND' },
  INVALID_PARAMS: { code: -32602, http: 400, grpc: 'INVALID_ARGUMENT' },
  INTERNAL: { code: -32603, http: 500, grpc: 'INTERNAL' },
} as const satisfies Record<string, { code: number; http: number; grpc: string }>

type Reason = keyof typeof A2A_ERRORS
type Detail = { readonly '@type': string } & Readonly<Record<string, unknown>>

type A2aErrorOptions = {
  readonly details?: readonly Detail[]
  /** Over HTTP, where it is another one than the reason's. */
  readonly http?: number
  readonly headers?: Readonly<Record<string, string>>
}

const Details = z.array(z.looseObject({ '@type': z.string() }))

/** How the HTTP+JSON binding has it: `google.rpc.Status` (specification 11.6). */
export const HttpErrorBody = z
  .object({ error: z.object({ code: z.int(), status: z.string(), message: z.string(), details: Details }) })
  .meta({ id: 'A2aError' })

/** How JSON-RPC has it (specification 9.5). */
export const RpcErrorBody = z
  .object({
    jsonrpc: z.literal('2.0'),
    id: z.union([z.string(), z.number()]).nullable(),
    error: z.object({ code: z.int(), message: z.string(), data: Details }),
  })
  .meta({ id: 'A2aRpcError' })

/** A refusal in the words of the protocol. `message` and `details` are public. */
export class A2aError extends Error {
  override readonly name = 'A2aError'
  readonly code: number
  readonly status: number
  readonly grpc: string
  readonly details: readonly Detail[]
  readonly headers: Readonly<Record<string, string>>

  constructor(reason: Reason, message: string, options: A2aErrorOptions = {}) {
    super(message)
    const { code, http, grpc } = A2A_ERRORS[reason]
    this.code = code
    this.status = options.http ?? http
    this.grpc = grpc
    this.details = options.details ?? [protocolInfo(reason)]
    this.headers = options.headers ?? {}
  }
}

/** A part of the request that is wrong. `path` begins with the member of the parameters. */
export function invalidParam(path: string, description: string): A2aError {
  return invalidParams([{ field: path, description }])
}

type Violation = { readonly field: string; readonly description: string }

/** Clients read the reason in the first detail, as of all refusals. */
function invalidParams(violations: readonly [Violation, ...Violation[]]): A2aError {
  const [{ field, description }] = violations
  const badRequest = { '@type': 'type.googleapis.com/google.rpc.BadRequest', fieldViolations: violations }
  return new A2aError('INVALID_PARAMS', `Invalid parameters: ${field}: ${description}`, {
    details: [protocolInfo('INVALID_PARAMS'), badRequest],
  })
}

/** The protocol's own words for a conversation that is not there; any other error as it is. */
export function asUnknownContext(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.code !== 'thread_not_found') return error
  return invalidParam('message.contextId', 'there is no such context, or it was forgotten; leave it out to begin one')
}

/** @throws A2aError the parameters do not fit. */
export function parseParams<Schema extends z.ZodType>(schema: Schema, params: unknown): z.output<Schema> {
  const parsed = schema.safeParse(params ?? {}, { error: problemSentence })
  if (parsed.success) return parsed.data
  const violations = parsed.error.issues.slice(0, MAX_VIOLATIONS).map(({ path, message }) => {
    return { field: path.map(String).join('.') || 'params', description: message }
  })
  throw invalidParams(violations as [Violation, ...Violation[]])
}

const MAX_VIOLATIONS = 20

/** What a client is shown of an error. */
export function toA2aError(error: unknown, request: FastifyRequest): A2aError {
  if (error instanceof A2aError) return error
  const { status, code, message, headers } = publicError(error as Error, request)
  if (code === 'invalid_json') return new A2aError('INVALID_JSON', `Invalid JSON payload: ${message}`)
  const reason = status < 500 ? 'INVALID_REQUEST' : 'INTERNAL'
  return new A2aError(reason, message, { http: status, headers, details: [errorInfo(code.toUpperCase(), 'bureau')] })
}

const protocolInfo = (reason: Reason): Detail => errorInfo(reason, 'a2a-protocol.org')

function errorInfo(reason: string, domain: string): Detail {
  return { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain }
}
