import { SETTINGS } from './transaction.ts'

/** Whether a pooler in between hands connections on after each transaction, as the URL says. */
export const isPooled = (address: string): boolean => new URL(address).searchParams.get('pgbouncer') === 'true'

/** A connection that is this process's alone keeps its settings: they need not be sent with every transaction. */
export function withSettings(address: string, settings: Readonly<Record<string, string>> = SETTINGS): string {
  const url = new URL(address)
  const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`)
  url.searchParams.set('options', [url.searchParams.get('options') ?? '', ...options].join(' ').trim())
  return url.href
}
