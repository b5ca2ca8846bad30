import { randomUUID } from 'node:crypto'

/** 32 hexadecimal digits, 122 of their bits random. Random bytes are fetched in advance for many, unlike `randomBytes`. */
export function randomHex(): string {
  return randomUUID().replaceAll('-', '')
}
