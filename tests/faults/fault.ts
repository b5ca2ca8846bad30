/** What a server does to itself, or what is done to its connection, at one moment of one database operation. */
export type Fault = {
  /** An operation's name, or that of the agency's tools (`TOOL`); `*`: any. */
  readonly operation: string
  /** `before`: nothing was sent. `inside`: all is written, COMMIT is not sent. `after`: committed, nobody knows it yet. */
  readonly point: 'before' | 'inside' | 'after'
  /** At which of the operations that get there, from 1. */
  readonly nth: number
  /** `mark`: tells the proxy before the database that this is the transaction; only inside PostgreSQL's. */
  readonly action: 'kill' | 'stop' | 'mark'
}

/** What the agency of a server has: the usual tools, one more, or not the one that a person has to approve. */
export type AgencyVersion = 'usual' | 'larger' | 'smaller'

/** The tools of the agency, when they are called: with `inside`, once the call is made and before it has an output. */
export const TOOL = 'a tool'

/** In the data folder: a line for each call of a tool that was made. */
export const TOOL_CALLS = 'tool-calls.log'

/** Stands in a statement of a marked transaction. */
export const MARK = 'fault runner: this transaction'

export function describeFault({ operation, point, nth, action }: Fault): string {
  const signal = action === 'stop' ? 'SIGSTOP' : 'kill -9'
  return `${signal} ${point} ${operation}${nth === 1 ? '' : ` (time ${nth})`}`
}

export type ToServer =
  | { readonly type: 'arm'; readonly fault: Fault | null }
  | { readonly type: 'violations' | 'bootId' | 'heap'; readonly id: number }
  | { readonly type: 'rows'; readonly id: number; readonly query: string }

export type FromServer =
  | { readonly type: 'ready'; readonly url: string }
  | { readonly type: 'operation'; readonly name: string }
  | { readonly type: 'answer'; readonly id: number; readonly value: unknown }
