import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'

const decompress = promisify(gunzip)

export const compress: (content: Buffer | string) => Promise<Buffer> = promisify(gzip)

/**
 * The compressed content of a file: of `<file>.gz`, as a published package holds it (scripts/pack.ts), or of the file itself
 * in the repository.
 */
export async function readCompressed(file: string): Promise<Buffer> {
  try {
    return await readFile(`${file}.gz`)
  } catch {
    return compress(await readFile(file))
  }
}

/** The text of such a file. */
export const readText = async (file: string): Promise<string> => String(await decompress(await readCompressed(file)))

/** Answers with compressed content, which is decompressed for clients that do not accept it. */
export async function sendCompressed(
  request: FastifyRequest,
  reply: FastifyReply,
  content: Buffer,
): Promise<FastifyReply> {
  reply.header('vary', 'accept-encoding')
  if (!acceptsGzip(request.headers['accept-encoding'])) return reply.send(await decompress(content))
  return reply.header('content-encoding', 'gzip').send(content)
}

/** `gzip;q=0` is how a client says that it does not. */
const acceptsGzip = (accepted: string | undefined): boolean =>
  accepted !== undefined && /(?:^|,)\s*gzip\s*(?:,|$|;\s*q=(?!0(?:\.0*)?\s*(?:,|$)))/i.test(accepted)
