import { type ErrorCode, ERRORS, ServiceError } from '@bureau/protocol'

/** A refusal of one member of a request, beside which forms show it. */
export function refusedField(code: ErrorCode, field: string, message: string = ERRORS[code].message): ServiceError {
  return new ServiceError(code, { message, fields: [{ path: `/${field}`, code, error: message }] })
}
