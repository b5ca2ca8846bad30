import { firstScreen, readyRecord, type Served } from './first-screen.ts'
import type { Terminal } from './terminal.ts'

type App = { readonly log: { info(fields: object, message: string): void } }

/** Says that a server answers: on one screen, or in one line of the log. */
export function announce(terminal: Terminal, app: App, served: Served): void {
  if (terminal.format === 'pretty') terminal.print(firstScreen(served, terminal.isPerson))
  else app.log.info(readyRecord(served), `Bureau is ready at ${served.url}`)
}
