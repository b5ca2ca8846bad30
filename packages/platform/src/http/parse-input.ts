import { type ErrorCode, type FieldProblem, ServiceError } from '@bureau/protocol'
import type { InputCodes } from '@bureau/runtime'
import type { z } from 'zod'

const MAX_SHOWN_PROBLEMS = 10

/**
 * Checks a part of a request against its schema. Nothing is coerced.
 *
 * @throws ServiceError `invalid_request`, or the code that `codes` has for the first problem.
 */
export function parseInput<Schema extends z.ZodType>(
  schema: Schema,
  input: unknown,
  codes: InputCodes = {},
): z.output<Schema> {
  const parsed = schema.safeParse(input, { reportInput: true }) // what is missing has no input
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.flatMap((issue) => problemsOf(issue, codes))
  throw refusalOf(problems)
}

/** A refusal for one or more problems; the first one decides the code. */
export function refusalOf(problems: readonly FieldProblem[]): ServiceError {
  const shown = problems.slice(0, MAX_SHOWN_PROBLEMS)
  const message = shown.map(({ path, error }) => (path === '' ? error : `${path.slice(1)}: ${error}`)).join('; ')
  const code = (shown[0]?.code ?? 'invalid_request') as ErrorCode
  return new ServiceError(code, { message: `The request is not valid. ${message}`, fields: shown })
}

function problemsOf(issue: z.core.$ZodIssue, codes: InputCodes): FieldProblem[] {
  const code = codeAt(issue.path, codes)
  const error = issue.code === 'invalid_type' && issue.input === undefined ? 'is missing' : shortened(issue.message)
  return [{ path: pointerOf(issue.path), code, error }]
}

function codeAt(path: readonly PropertyKey[], codes: InputCodes): ErrorCode {
  const first = String(path[0] ?? '*')
  const below = path.length > 1 ? codes[`${first}/*`] : undefined
  return below ?? codes[first] ?? codes['*'] ?? 'invalid_request'
}

/** JSON pointer (RFC 6901). */
function pointerOf(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${shortened(String(part)).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/** Names and values of the caller appear in messages: never at length. */
const shortened = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}…` : text)
