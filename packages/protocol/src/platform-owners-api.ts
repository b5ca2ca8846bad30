import { z } from 'zod'
import { Time } from './platform-fields.ts'

/** Owners of the hosted platform, as its operator manages them. */

const OwnerName = z.string().trim().min(1).max(100)
const PublishesAgencies = z
  .boolean()
  .describe('Every agency of the deployment is an integration of this owner, also those that are added later.')

export const Owner = z
  .object({
    object: z.literal('owner'),
    id: z.string(),
    name: z.string(),
    status: z.enum(['active', 'disabled']).describe('disabled: its API keys are refused.'),
    publishesAgencies: PublishesAgencies,
    createdAt: Time,
  })
  .meta({ id: 'Owner' })
export type Owner = z.output<typeof Owner>

export const OwnerCreate = z
  .strictObject({ name: OwnerName, publishesAgencies: PublishesAgencies.default(true) })
  .meta({ id: 'OwnerCreate' })
export type OwnerCreate = z.output<typeof OwnerCreate>

export const OwnerPatch = z
  .strictObject({
    name: OwnerName.optional(),
    status: z.enum(['active', 'disabled']).optional(),
    publishesAgencies: PublishesAgencies.optional(),
  })
  .refine((changes) => Object.keys(changes).length > 0, 'must change something')
  .meta({ id: 'OwnerPatch' })
export type OwnerPatch = z.output<typeof OwnerPatch>
