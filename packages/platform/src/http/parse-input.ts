import { type ErrorCode, type FieldProblem, ServiceError } from '@bureau/protocol'
import { type InputCodes, problemSentence, shortened } from '@bureau/runtime'
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
  const parsed = schema.safeParse(input, { error: problemSentence })
  if (parsed.success) return parsed.data
  throw refusalOf(problemsOf(parsed.error.issues, codes))
}

/** A refusal for one or more problems; the first one decides the code. */
export function refusalOf(problems: readonly FieldProblem[]): ServiceError {
  const shown = problems.slice(0, MAX_SHOWN_PROBLEMS)
  const message = shown.map(({ path, error }) => (path === '' ? error : `${path.slice(1)}: ${error}`)).join('; ')
  const code = (shown[0]?.code ?? 'invalid_request') as ErrorCode
  return new ServiceError(code, { message: `The request is not valid. ${message}`, fields: shown })
}

/**
 * The first problem of each path, as many as are shown. What else is wrong with a value follows from the first problem, or
 * shows itself when that one is mended.
 */
function problemsOf(issues: readonly z.core.$ZodIssue[], codes: InputCodes): FieldProblem[] {
  const problems = new Map<string, FieldProblem>()
  for (const { path, message } of issues) {
    if (problems.size === MAX_SHOWN_PROBLEMS) break
    const pointer = pointerOf(path)
    if (!problems.has(pointer)) problems.set(pointer, { path: pointer, code: codeAt(path, codes), error: message })
  }
  return [...problems.values()]
}

function codeAt(path: readonly PropertyKey[], codes: InputCodes): ErrorCode {
  const first = String(path[0] ?? '*')
  const below = path.length > 1 ? codes[`${first}/*`] : undefined
  return below ?? codes[first] ?? codes['*'] ?? 'invalid_request'
}

/** JSON pointer (RFC 6901). */
export function pointerOf(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${shortened(String(part)).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}
