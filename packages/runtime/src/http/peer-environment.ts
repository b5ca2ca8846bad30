import { isIP } from 'node:net'
import { z } from 'zod'
import { isCidr, isEgressException } from '../egress/address-policy.ts'

const listOf = (text: string): string[] => text.split(',').flatMap((part) => part.trim() || [])

const isNetwork = (text: string): boolean => isIP(text) !== 0 || isCidr(text)

/** What both servers read of the environment about whoever they speak to. */
export const PeerEnvironment = {
  BUREAU_ALLOWED_HOSTS: z
    .string()
    .default('')
    .transform(listOf)
    .superRefine((entries, context) => {
      const message = (entry: string): string => `"${entry}" is no host, address or network like 10.0.0.0/8`
      for (const entry of entries) if (!isEgressException(entry)) context.addIssue(message(entry))
    })
    .describe(
      'Hosts or networks, by commas, that callers and tool servers may name although they are not public addresses.',
    ),
  BUREAU_TRUSTED_PROXIES: z
    .string()
    .default('')
    .transform(listOf)
    .refine((networks) => networks.every(isNetwork), 'must be addresses or networks like 10.0.0.0/8, by commas')
    .describe(
      'Reverse proxies, as addresses or networks by commas, whose X-Forwarded-* headers say who the client is. ' +
        'Default: none, the client is whoever connects.',
    ),
  BUREAU_WRONG_KEYS_PER_MINUTE: z.coerce
    .number()
    .int()
    .min(1)
    .max(1_000_000)
    .default(20)
    .describe('Wrong API keys or tokens of one client address a minute that are answered with 401; the rest get 429.'),
}
