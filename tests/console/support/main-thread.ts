import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Page } from 'playwright-core'

type TraceEvent = {
  readonly name: string
  readonly ph: string
  readonly pid: number
  readonly tid: number
  /** Microseconds of CPU: how long a task was, however busy the machine. */
  readonly tdur?: number
  readonly args?: { readonly name?: string }
}

/**
 * The longest tasks of the page's own thread while something happens, in milliseconds of its CPU, longest first. A task of more
 * than 50 ms is one that a person notices.
 */
export async function longestTasks(page: Page, happens: () => Promise<void>): Promise<number[]> {
  const browser = page.context().browser()!
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'bureau-trace-')), 'trace.json')
  await browser.startTracing(page, { path: file, categories: ['toplevel', 'disabled-by-default-devtools.timeline'] })
  await happens()
  await browser.stopTracing()
  const { traceEvents } = JSON.parse(readFileSync(file, 'utf8')) as { traceEvents: readonly TraceEvent[] }
  const isPage = new Set(
    traceEvents
      .filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
      .map(({ pid, tid }) => `${pid} ${tid}`),
  )
  return traceEvents
    .filter(({ name, ph, pid, tid }) => name === 'RunTask' && ph === 'X' && isPage.has(`${pid} ${tid}`))
    .map(({ tdur = 0 }) => tdur / 1_000)
    .toSorted((a, b) => b - a)
}
