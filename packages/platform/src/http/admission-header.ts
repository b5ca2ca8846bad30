import type { ServiceError } from '@bureau/protocol'

/** What is known of a completion's reservation when something goes wrong. */
type AdmissionState = 'none' | 'unknown' | { readonly runId: string }

/** A completion that failed when something was, or may have been, reserved. */
export class AfterAdmission extends Error {
  override readonly name = 'AfterAdmission'
  readonly state: AdmissionState

  constructor(state: AdmissionState, options: ErrorOptions = {}) {
    super('a completion failed after its admission', options)
    this.state = state
  }
}

/** `false` is sent only when this attempt reserved nothing, and not where it could be taken for "try another id". */
export function admissionHeaders(error: Error, { code }: ServiceError): Record<string, string> {
  const state = error instanceof AfterAdmission ? error.state : 'none'
  if (typeof state === 'object') return { 'X-Agent-Run-Admitted': 'true', 'X-Agent-Run-Id': state.runId }
  return state === 'none' && code !== 'usage_request_id_reused' ? NOT_ADMITTED : {}
}

const NOT_ADMITTED = { 'X-Agent-Run-Admitted': 'false' }
