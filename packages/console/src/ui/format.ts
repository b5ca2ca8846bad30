/** `420 ms`, `1.5 s`, `1 min 3 s`, `2 h 5 min`, `7 days`; of milliseconds. */
export function duration(ms: number): string {
  if (ms < 1) return '<1 ms'
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 10_000) return `${trimmed((ms / 1_000).toFixed(2))} s`
  if (ms < 60_000) return `${trimmed((ms / 1_000).toFixed(1))} s`
  const seconds = Math.round(ms / 1_000)
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min${seconds % 60 === 0 ? '' : ` ${seconds % 60} s`}`
  const minutes = Math.round(seconds / 60)
  if (minutes < 2_880) return `${Math.floor(minutes / 60)} h${minutes % 60 === 0 ? '' : ` ${minutes % 60} min`}`
  return `${Math.round(minutes / 1_440)} days`
}

/** Without zeros at its end, which say nothing. */
const trimmed = (amount: string): string => amount.replace(/\.?0+$/, '')

/** Milliseconds between two times, as the platform writes them; null as long as one is open. */
export function millisecondsBetween(from: string | null, to: string | null): number | null {
  return from === null || to === null ? null : Date.parse(to) - Date.parse(from)
}

/** US dollars: four decimals below ten cents, because most runs cost less. */
export function dollars(amount: number): string {
  if (amount === 0) return '$0'
  if (Math.abs(amount) < 0.0001) return '<$0.0001'
  return `$${amount.toFixed(Math.abs(amount) < 0.1 ? 4 : 2)}`
}

const WHOLE = new Intl.NumberFormat('en-US')

export const whole = (count: number): string => WHOLE.format(count)

/** `1 run`, `2,000 runs`. */
export const counted = (count: number, noun: string): string => `${whole(count)} ${noun}${count === 1 ? '' : 's'}`

export function bytes(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB']
  let amount = count
  let unit = 0
  for (; amount >= 1_000 && unit < units.length - 1; unit += 1) amount /= 1_000
  return `${unit === 0 ? amount : amount.toFixed(amount < 10 ? 1 : 0)} ${units[unit]}`
}

const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })

const DAY_OF_YEAR = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })

/** The day, of other years the year too, on one line. */
export function dayOf(at: string | number | Date): string {
  const date = new Date(at)
  const day = date.getFullYear() === new Date().getFullYear() ? DAY : DAY_OF_YEAR
  return day.format(date).replaceAll(' ', '\u00a0')
}

/** Where the local days from one time to another begin: not each of them has 24 hours. */
export function midnights(from: string, to: string): Date[] {
  const days: Date[] = []
  const first = new Date(from)
  const midnight = (): Date => new Date(first.getFullYear(), first.getMonth(), first.getDate() + days.length)
  while (midnight() <= new Date(to)) days.push(midnight())
  return days
}

/** The time of today; of other days the day too, and of other years the year. */
export function moment(at: string | number): string {
  const [date, now] = [new Date(at), new Date()]
  if (date.toDateString() === now.toDateString()) return CLOCK.format(date)
  return `${dayOf(date)}, ${CLOCK.format(date)}`
}

/** JSON for people; text as it is. */
export function pretty(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '')
}

/** What JSON says, or the text itself. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** What the content of a message says: text, or a list of parts that hold some. */
export function textOf(content: unknown): string {
  if (!Array.isArray(content)) return typeof content === 'string' ? content : ''
  return content.map((part: { text?: string; refusal?: string }) => part.text ?? part.refusal ?? '').join('')
}

/** The whole of a text up to a length, with an ellipsis for what is left out. */
export const brief = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length - 1)}…`
