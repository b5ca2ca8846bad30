const MAX_BYTES = 255

/** Whether a text is a file name without a directory, in one spelling: normalised (NFC), visible, at most 255 bytes. */
export function isAttachmentName(name: string): boolean {
  if (name === '' || name === '.' || name === '..' || Buffer.byteLength(name) > MAX_BYTES) return false
  return name.isWellFormed() && name.normalize('NFC') === name && !UNFIT.test(name)
}

/** The name of a file that came without one: the last part of its address, cleaned, else `file`. */
export function nameFromUrl(url: URL): string {
  const last = url.pathname.split('/').at(-1) ?? ''
  const name = decode(last).toWellFormed().normalize('NFC').replace(EVERY_UNFIT, '_')
  const short = shorten(name)
  return isAttachmentName(short) ? short : 'file'
}

/** Separators, control, format and bidirectional characters, line and paragraph separators. */
const UNFIT = /[/\\\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u
const EVERY_UNFIT = new RegExp(UNFIT, 'gu')

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Keeps the end, where the extension is. */
function shorten(name: string): string {
  const characters = Array.from(name)
  while (Buffer.byteLength(characters.join('')) > MAX_BYTES)
    characters.splice(0, Math.max(1, characters.length - MAX_BYTES))
  return characters.join('')
}
