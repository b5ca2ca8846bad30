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

/** A fixed piece of work, which tells how fast this machine is now: the least of several times, in milliseconds. */
const WORK = `(() => {
  const items = Array.from({ length: 20_000 }, (_, at) => ({ id: 'msg-' + at, text: 'Question ' + at }))
  const times = Array.from({ length: 9 }, () => {
    const startedAt = performance.now()
    JSON.parse(JSON.stringify(items))
    return performance.now() - startedAt
  })
  return Math.min(...times)
})()`
/** What it takes on an ordinary machine. */
const ORDINARY_WORK_MS = 8

/** How many times slower this machine is now than an ordinary one, at least 1: a host that is shared can be slow for minutes. */
export async function slownessFor(page: Page): Promise<number> {
  return Math.max(1, (await page.evaluate<number>(WORK)) / ORDINARY_WORK_MS)
}

/**
 * The longest tasks of the page's own thread while something happens, in milliseconds of the CPU of an ordinary machine, longest
 * first. A task of more than 50 ms is one that a person notices.
 */
export async function longestTasks(page: Page, happens: () => Promise<void>): Promise<number[]> {
  const browser = page.context().browser()!
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'bureau-trace-')), 'trace.json')
  await browser.startTracing(page, { path: file, categories: ['toplevel', 'disabled-by-default-devtools.timeline'] })
  await happens()
  await browser.stopTracing()
  const slowness = await slownessFor(page)
  const { traceEvents } = JSON.parse(readFileSync(file, 'utf8')) as { traceEvents: readonly TraceEvent[] }
  const isPage = new Set(
    traceEvents
      .filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
      .map(({ pid, tid }) => `${pid} ${tid}`),
  )
  return traceEvents
    .filter(({ name, ph, pid, tid }) => name === 'RunTask' && ph === 'X' && isPage.has(`${pid} ${tid}`))
    .map(({ tdur = 0 }) => tdur / 1_000 / slowness)
    .toSorted((a, b) => b - a)
}
