import { ServiceError } from '@bureau/protocol'

/** What a refusal means to an operator, by the code that S3 or its SDK gives it. */
const REFUSALS: Readonly<Record<string, string>> = {
  NoSuchBucket: 'There is no such bucket.',
  InvalidAccessKeyId: 'The access key (AWS_ACCESS_KEY_ID) is not known there.',
  SignatureDoesNotMatch: 'The secret key (AWS_SECRET_ACCESS_KEY) is not that of the access key.',
  AccessDenied: 'These credentials may not use the bucket.',
  ExpiredToken: 'The credentials have expired.',
  RequestTimeTooSkewed: 'The clock of this machine and that of the file store are more than 15 minutes apart.',
  PermanentRedirect: 'The bucket is in another region, or has another endpoint.',
  AuthorizationHeaderMalformed: 'The bucket is in another region.',
  CredentialsProviderError: 'There are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.',
}

/** Whether a failure stays the same until somebody changes the configuration. */
export function isRefusal(error: unknown): boolean {
  return nameOf(error) in REFUSALS || nameOf(error) === MISSING_REGION
}

/** One sentence about what the file store has answered. */
export function explainS3Error(error: unknown): string {
  const name = nameOf(error)
  if (name === MISSING_REGION) return 'There is no region: set AWS_REGION, or `region=` in the address.'
  return REFUSALS[name] ?? `The file store failed: ${(error as Error).message}`
}

const MISSING_REGION = 'Region is missing'

/** The SDK gives this one no name of its own. */
function nameOf(error: unknown): string {
  const { name, message } = error as Error
  return message === MISSING_REGION ? MISSING_REGION : name
}

/** @throws ServiceError `files_unavailable`, `invalid_file_name`; what `unlessMissing` knows stays as it is */
export async function reached<Answer>(asked: Promise<Answer>): Promise<Answer> {
  try {
    return await asked
  } catch (error) {
    if (nameOf(error) === 'KeyTooLongError') throw new ServiceError('invalid_file_name', { cause: error })
    throw isMissing(error) ? error : unavailable(error)
  }
}

/** For the log: what it means and what there was. Callers learn only that they may try again. */
export function unavailable(error: unknown): ServiceError {
  return new ServiceError('files_unavailable', { cause: new Error(explainS3Error(error), { cause: error }) })
}

export async function unlessMissing<Answer>(asked: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await asked
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** A HEAD is answered without a code, so for it a missing bucket is a missing file. */
const isMissing = (error: unknown): boolean => ['NoSuchKey', 'NotFound'].includes(nameOf(error))
