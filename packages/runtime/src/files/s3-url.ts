import { ConfigError } from '@bureau/protocol'
import { z } from 'zod'
import { problemSentence } from '../http/problem-sentence.ts'

/** A bucket of some S3 service, or a part of one. */
export type S3Place = {
  readonly bucket: string
  /** With a slash at its end, or empty. */
  readonly prefix: string
  /** Undefined: `AWS_REGION`, or what else the AWS SDK finds. */
  readonly region: string | undefined
  /** Undefined: AWS itself. */
  readonly endpoint: string | undefined
  /** Whether the bucket is the first part of the path or of the host. */
  readonly addressing: 'path' | 'host'
}

const Parameters = z.strictObject({
  region: z.string().min(1).optional(),
  endpoint: z
    .url({ protocol: /^https?$/, error: 'is an http:// or https:// address' })
    .refine((text) => ['', '/', undefined].includes(URL.parse(text)?.pathname), { error: 'has no path' })
    .optional(),
  addressing: z.enum(['path', 'host']).optional(),
})

/**
 * Reads `s3://bucket/prefix?region=…&endpoint=…&addressing=path|host`.
 *
 * Default of `addressing`: `path` with an endpoint, as services of one's own want it, otherwise `host`.
 *
 * @throws ConfigError what is wrong with it. Credentials in it are refused: an address is logged and shown.
 */
export function parseS3Url(text: string): S3Place {
  const url = URL.parse(text)
  if (url?.protocol !== 's3:') throw new ConfigError('FILES_URL: begins with s3://')
  requirePlainAddress(url)
  const parsed = Parameters.safeParse(Object.fromEntries(url.searchParams), { error: problemSentence })
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => [...path, message].join(' '))
    throw new ConfigError(`FILES_URL: ${problems.join('; ')}`)
  }
  const { region, endpoint, addressing = endpoint === undefined ? 'host' : 'path' } = parsed.data
  const ofAnyService = endpoint === undefined ? undefined : 'us-east-1'
  const prefix = prefixOf(url)
  return {
    bucket: url.hostname,
    prefix: prefix && `${prefix}/`,
    region: region ?? ofAnyService,
    endpoint,
    addressing,
  }
}

const prefixOf = ({ pathname }: URL): string => pathname.replaceAll(/^\/+|\/+$/g, '')

function requirePlainAddress(url: URL): void {
  if (url.username !== '' || url.password !== '' || url.port !== '' || url.hash !== '') {
    throw new ConfigError(
      'FILES_URL: is s3://bucket/prefix. Credentials belong in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.',
    )
  }
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(url.hostname)) {
    throw new ConfigError('FILES_URL: the name of the bucket has 3 to 63 of a-z 0-9 . -')
  }
  if (!/^([A-Za-z0-9._-]+(\/|$))*$/.test(prefixOf(url))) {
    throw new ConfigError('FILES_URL: the prefix has segments of A-Z a-z 0-9 . _ -')
  }
}
