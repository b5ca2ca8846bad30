import { firstScreen, readyRecord, type Served } from './first-screen.ts'
import type { Terminal } from './terminal.ts'

type App = { readonly log: { info(fields: object, message: string): void } }

/** Says that a server answers: on one screen, or in one line of the log. */
export function announce({ format, isPerson, print }: Terminal, app: App, served: Served): void {
  if (format === 'pretty') print(firstScreen(served, isPerson))
  else app.log.info(readyRecord(served), `Bureau is ready at ${served.url}`)
}
