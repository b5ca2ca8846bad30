import {
  createEgressPolicy,
  type EgressPolicy,
  type EgressPolicyOptions,
  GuardedDispatcher,
  type GuardedDispatcherOptions,
} from '@bureau/runtime'

/** Which addresses of attachments are allowed, and the only way to them. */
export type AttachmentAccess = {
  readonly policy: EgressPolicy
  /** Ports that URLs may have. Peers that the operator named are exempt. */
  readonly ports: readonly number[]
  readonly dispatcher: GuardedDispatcher
}

export type AttachmentAccessOptions = EgressPolicyOptions &
  Pick<GuardedDispatcherOptions, 'ca' | 'resolve'> & {
    /** Default: 443 alone. */
    readonly ports?: readonly number[]
  }

/**
 * Access to public addresses, and to the exceptions of the operator.
 *
 * One for the whole process; its dispatcher must be closed with it.
 *
 * @throws ConfigError an exception cannot be understood.
 */
export function createAttachmentAccess(options: AttachmentAccessOptions = {}): AttachmentAccess {
  const { ports = [443], ca, resolve, ...peers } = options
  const policy = createEgressPolicy(peers)
  const dispatcher = new GuardedDispatcher({
    policy,
    connectTimeoutMs: 5_000,
    ...(ca !== undefined && { ca }),
    ...(resolve && { resolve }),
  })
  return { policy, ports, dispatcher }
}
