import { type Fields, isFields } from '@bureau/protocol'

/** An error and what has caused it, the error itself first. Causes may go round in a circle. */
export function causesOf(error: unknown): Fields[] {
  const causes: Fields[] = []
  for (let cause = error; isFields(cause) && causes.length < 8; cause = cause['cause']) causes.push(cause)
  return causes
}
