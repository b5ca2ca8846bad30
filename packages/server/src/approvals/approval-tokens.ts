import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { keyOfFolder, RunState } from '@bureau/framework'
import { Message } from '@bureau/protocol'
import { z } from 'zod'

/** All that is needed to go on with a run once a person has decided about one of its calls. */
const HeldCall = z.object({
  run_id: z.string(),
  call_id: z.string(),
  tool: z.string(),
  /** As the model wrote them. */
  arguments: z.string(),
  agent: z.string(),
  agent_run_id: z.string(),
  edit: z.boolean(),
  /** Milliseconds since the epoch. */
  expires_at: z.number(),
  state: RunState,
  /** What of the run the client does not keep. */
  missing: z.array(Message),
})
export type HeldCall = z.infer<typeof HeldCall>

/** Whose call it is. A token is worth nothing to anybody else. */
export type CallOwner = {
  /** The agency's name in the routes. */
  readonly agency: string
  readonly userId: string | null
}

type ApprovalTokensOptions = {
  /** Texts of 32 characters or more: the first one seals, all open. Default: a key that is made and kept in `directory`. */
  readonly secrets: readonly string[]
  readonly directory: string
}

const VERSION = 1
const KEY_ID_BYTES = 4
const IV_BYTES = 12
const TAG_BYTES = 16
const HEADER_BYTES = 1 + KEY_ID_BYTES + IV_BYTES + TAG_BYTES
/** A token that unfolds to more was not made here; what a run may hold is far below it. */
const MAX_CONTENT_BYTES = 67_108_864

/** What the tokens of one request may still unfold to, in bytes: each is a few kilobytes on its way, and may be sent many times. */
export type Room = { bytes: number }

type Key = { readonly id: Buffer; readonly bytes: Buffer }

/**
 * Tokens by which a server that keeps nothing goes on with a run: everything that it needs, encrypted and authenticated
 * (AES-256-GCM) for one agency and one user, so that nobody else can make, change, read or use one.
 */
export class ApprovalTokens {
  readonly #options: ApprovalTokensOptions
  #keys: Promise<readonly Key[]> | undefined

  constructor(options: ApprovalTokensOptions) {
    this.#options = options
  }

  /** @throws Error there is no secret, and a key cannot be kept in the folder. */
  async seal(owner: CallOwner, call: HeldCall): Promise<string> {
    const key = (await this.#loadKeys())[0]!
    const iv = randomBytes(IV_BYTES)
    const cipher = createCipheriv('aes-256-gcm', key.bytes, iv).setAAD(placeOf(owner))
    const content = deflateRawSync(JSON.stringify(call))
    const sealed = Buffer.concat([cipher.update(content), cipher.final()])
    return Buffer.concat([Buffer.from([VERSION]), key.id, iv, cipher.getAuthTag(), sealed]).toString('base64url')
  }

  /**
   * Undefined: it was not made by this server for this agency and user, or was changed. It may have expired.
   *
   * @param room - Negative afterwards: there was not enough.
   */
  async open(owner: CallOwner, token: string, room: Room): Promise<HeldCall | undefined> {
    const bytes = Buffer.from(token, 'base64url')
    // A token has one spelling.
    if (bytes.length <= HEADER_BYTES || bytes[0] !== VERSION || bytes.toString('base64url') !== token) return undefined
    const id = bytes.subarray(1, 1 + KEY_ID_BYTES)
    const key = (await this.#loadKeys()).find((each) => each.id.equals(id))
    if (!key) return undefined
    const content = decrypted(key, bytes.subarray(1 + KEY_ID_BYTES), placeOf(owner))
    room.bytes -= content?.length ?? 0
    // What was sealed by another version of the server may have another shape.
    return content && room.bytes >= 0 ? HeldCall.safeParse(JSON.parse(content.toString())).data : undefined
  }

  #loadKeys(): Promise<readonly Key[]> {
    this.#keys ??= this.#readSecrets().then((secrets) => secrets.map(keyOf))
    this.#keys.catch(() => (this.#keys = undefined))
    return this.#keys
  }

  async #readSecrets(): Promise<readonly string[]> {
    const { secrets, directory } = this.#options
    return secrets.length > 0 ? secrets : [await keyOfFolder(directory)]
  }
}

function keyOf(secret: string): Key {
  const derive = (purpose: string, length: number): Buffer =>
    Buffer.from(hkdfSync('sha256', secret, '', purpose, length))
  return { id: derive('bureau approval key id', KEY_ID_BYTES), bytes: derive('bureau approval key', 32) }
}

function placeOf({ agency, userId }: CallOwner): Buffer {
  return Buffer.from(JSON.stringify(['approval', agency, userId]))
}

function decrypted(key: Key, sealed: Buffer, place: Buffer): Buffer | undefined {
  const tag = sealed.subarray(IV_BYTES, IV_BYTES + TAG_BYTES)
  try {
    const decipher = createDecipheriv('aes-256-gcm', key.bytes, sealed.subarray(0, IV_BYTES), {
      authTagLength: TAG_BYTES,
    })
      .setAAD(place)
      .setAuthTag(tag)
    const content = Buffer.concat([decipher.update(sealed.subarray(IV_BYTES + TAG_BYTES)), decipher.final()])
    return inflateRawSync(content, { maxOutputLength: MAX_CONTENT_BYTES })
  } catch {
    return undefined
  }
}
