import { hash } from 'node:crypto'

/** A request whose sender has given it an id, so that it can be sent again. Ids of other callers and agencies are others. */
export type NamedRequest = {
  readonly agency: string
  readonly userId: string | null
  readonly requestId: string
}

/** The run that answers such a request, and a digest of what was `asked`. */
export type RequestedRun = { readonly runId: string; readonly asked: string }

/** How long the id of a request is known, in milliseconds: 24 hours. */
export const REQUEST_ID_MS = 86_400_000

/** Which run answers a request that may be sent more than once. */
export interface RequestIds {
  /** Of many who claim one request, on any process, the first gets `run` back; all others get that of the first. */
  claim(request: NamedRequest, run: RequestedRun): Promise<RequestedRun>

  find(request: NamedRequest): Promise<RequestedRun | undefined>

  /** Takes a claim back whose run could not be started. */
  release(request: NamedRequest): Promise<void>
}

/** Requests are looked up by digests: ids may hold anything that a caller has chosen. */
export function requestDigest({ agency, userId, requestId }: NamedRequest): string {
  return hash('sha256', JSON.stringify([agency, userId, requestId]), 'base64url')
}
