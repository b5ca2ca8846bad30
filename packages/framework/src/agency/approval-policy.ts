import { z } from 'zod'
import { AnyFunction } from '../options.ts'
import type { ToolContext } from './run-context.ts'

type When<Input> =
  | boolean
  // A method, so that tools of any parameters are tools.
  | { bivariant(input: Input, context: ToolContext): boolean | Promise<boolean> }['bivariant']

/**
 * Whether a person must decide about a call before it is carried out: always, or where a function of the checked input says
 * so. With `edit: true` that person may change the arguments.
 */
export type ApprovalPolicy<Input> = When<Input> | { readonly when: When<Input>; readonly edit: true }

const When = z.union([z.boolean(), AnyFunction])

export const ApprovalPolicyChecks = z.union([When, z.strictObject({ when: When, edit: z.literal(true) })], {
  error: 'must be true, false, a function, or { when, edit: true }',
})

/** A policy as it is asked. */
export type ReadPolicy = {
  readonly when: (input: Record<string, unknown>, context: ToolContext) => boolean | Promise<boolean>
  readonly edit: boolean
}

/** Undefined: no call of the tool ever needs an approval. */
export function readPolicy(policy: ApprovalPolicy<never> | undefined): ReadPolicy | undefined {
  const { when, edit } =
    typeof policy === 'object' ? { when: policy.when, edit: true } : { when: policy ?? false, edit: false }
  if (when === false) return undefined
  // The function is called with what the tool's own parameters have parsed.
  return { when: when === true ? () => true : (when as unknown as ReadPolicy['when']), edit }
}
