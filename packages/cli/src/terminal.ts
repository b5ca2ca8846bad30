import type { LogDestination } from '@bureau/runtime'
import { prettyLine } from './pretty-line.ts'

/** How lines of the log are written: for programs, or for people. */
export type LogFormat = 'json' | 'pretty'

/** Where a command prints to. */
export type Terminal = {
  readonly format: LogFormat
  /** A person looks at it: what must not lie in a file may be shown. */
  readonly isPerson: boolean
  /** Takes the lines of the log. */
  readonly log: LogDestination
  /** Prints text as it is. */
  print(text: string): void
  /** Shows what is being waited for, where a person looks on. Returns what takes it away. */
  waitFor(what: string): () => void
}

/** People look at terminals, except on machines that build things. `format` is what they asked for. */
export function openTerminal(format: LogFormat | undefined, environment: NodeJS.ProcessEnv): Terminal {
  const screen = process.stdout
  const isPerson = screen.isTTY && !environment['CI']
  const isPretty = format === undefined ? isPerson : format === 'pretty'
  let waiting = ''
  const show = (text: string): void => void screen.write(waiting === '' ? text : `${CLEARED_LINE}${text}${waiting}`)
  return {
    format: isPretty ? 'pretty' : 'json',
    isPerson,
    log: { write: (line) => show(isPretty ? prettyLine(line) : line) },
    print: (text) => show(text),
    waitFor: (what) => {
      if (!isPerson || !isPretty) return () => {}
      waiting = `  ${what} …`
      screen.write(waiting)
      return () => {
        waiting = ''
        screen.write(CLEARED_LINE)
      }
    },
  }
}

const CLEARED_LINE = '\r\u001b[K'
