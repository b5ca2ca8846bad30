import { z } from 'zod'

/** Fields that several requests and answers of the hosted platform share. */

const CONTROL = '\\u0000-\\u001f\\u007f-\\u009f'
const NO_CONTROL = new RegExp(`^[^${CONTROL}]+$`)

/** An id of ours, or a name that callers chose for something: one line, at most 256 characters. */
export const Id = z.string().min(1).max(256).regex(NO_CONTROL, 'must not hold control characters')

/** A file name without a directory: no separators, no control, format or bidirectional characters, not `.` or `..`. */
export const FileName = z
  .string()
  .min(1)
  .max(255)
  .regex(
    new RegExp(`^(?!\\.{1,2}$)[^/\\\\${CONTROL}\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff]+$`),
    'must be a file name, without a directory and without control or invisible characters',
  )

export const ConsumerId = z
  .string()
  .regex(/^[A-Za-z0-9._:@+=~|-]{1,256}$/, 'may hold 1 to 256 of A-Z a-z 0-9 . _ : @ + = ~ | -')

/** RFC 3339, UTC, milliseconds: how the platform writes time. */
export const Time = z.iso.datetime({ offset: true })

/** A point in time that a caller names, from 1970 to 9999, in any zone: what a database keeps is less than what can be written. */
export const GivenTime = Time.transform((time) => new Date(time))
  .refine((time) => time.getUTCFullYear() >= 1970 && time.getUTCFullYear() <= 9999, 'must be a time from 1970 to 9999')
  .transform((time) => time.toISOString())

/** The IANA name of a time zone, as far as this runtime knows them: no offset and no POSIX rule. */
export const TimeZone = z.string().max(64).refine(isTimeZone, 'must be an IANA time zone')

export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z][A-Za-z0-9_+\-/]*$/.test(name)) return false
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone: name }))
  } catch {
    return false
  }
}

const PROTOTYPE_NAMES = /^(?:__proto__|constructor|prototype)$/

/** Sixteen short notes of the caller's own. */
export const Metadata = z
  .record(
    z
      .string()
      .regex(/^[A-Za-z0-9_.-]{1,64}$/, 'may hold 1 to 64 of A-Z a-z 0-9 _ . -')
      .refine((name) => !PROTOTYPE_NAMES.test(name), 'is reserved'),
    z.string().max(512),
  )
  .refine((notes) => Object.keys(notes).length <= 16, 'may hold at most 16 entries')

/** UTF-8 bytes of a text. */
export const utf8Length = (text: string): number => new TextEncoder().encode(text).length

/** A query parameter that is a whole number. */
export const queryNumber = (schema: z.ZodInt) =>
  z.preprocess((text, context) => {
    if (typeof text === 'string' && /^\d{1,15}$/.test(text)) return Number(text)
    context.addIssue({ code: 'custom', message: 'must be a whole number' })
    return z.NEVER
  }, schema)

export const queryBoolean = z.enum(['true', 'false']).transform((text) => text === 'true')

/** `limit` and `cursor` of every list. */
export const PageQuery = z.strictObject({
  limit: queryNumber(z.int().min(1).max(100)).optional().describe('Items on a page, 1 to 100. Default 20.'),
  cursor: z.string().max(1024).optional().describe('`nextCursor` of the page before.'),
})

/** One page of a list. */
export const listOf = <Item extends z.ZodType>(item: Item) =>
  z.object({
    object: z.literal('list'),
    data: z.array(item),
    hasMore: z.boolean(),
    nextCursor: z.string().nullable(),
  })
