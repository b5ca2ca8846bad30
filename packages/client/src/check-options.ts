import { addressOf } from './send.ts'

const NAMES = 'url integration token headers resume histories retryDelaysMs silenceMs storage fetch'.split(' ')

/** @throws TypeError an option is not known, or `url` is not an address. `where` is whose options they are. */
export function checkOptions(where: string, options: { readonly url: string | URL }): void {
  for (const name of Object.keys(options)) {
    if (NAMES.includes(name)) continue
    const near = NAMES.find((known) => hasLettersOf(known, name) || hasLettersOf(name, known))
    const advice = near ? `Did you mean "${near}"?` : `Options: ${NAMES.join(', ')}.`
    throw new TypeError(`${where}: there is no option "${name}". ${advice}`)
  }
  try {
    if (addressOf(options.url).protocol.startsWith('http')) return
  } catch {}
  throw new TypeError(`${where}: url: must be an http: or https: address.`)
}

/** Whether a word has all letters of another one, in their order: letters are left out or typed twice. */
function hasLettersOf(word: string, other: string): boolean {
  let found = 0
  for (const letter of word) if (letter === other[found]) found += 1
  return found === other.length
}
