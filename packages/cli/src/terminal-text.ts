import { styleText } from 'node:util'

/** What others have written must not move the cursor or change colours. */
export const plain = (text: string): string => text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')

/** For standard error: it may be a terminal where standard output is a file, and the other way round. */
export const coloured = (format: Parameters<typeof styleText>[0], text: string): string =>
  styleText(format, text, { stream: process.stderr })
