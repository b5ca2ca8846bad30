import type { AgencyMount, OpenedMountFile } from './agency-mount.ts'
import { readText } from './read-text.ts'

type FileSearch = {
  /** `*` stands for any characters of a line; everything else for itself. */
  readonly query: string
  /** A folder, a file, or the beginning of paths; canonical. */
  readonly path: string
  readonly ignoreCase: boolean
  /** Most matches. */
  readonly limit: number
  readonly signal: AbortSignal | null
}

type FoundLines = {
  readonly matches: readonly { readonly path: string; readonly line: number; readonly text: string }[]
  /** Text files that were searched. */
  readonly files: number
  /** Why not everything was searched; null when it was. */
  readonly incomplete: string | null
}

const MAX_BYTES = 64 * 1024 * 1024
const MAX_DURATION_MS = 5_000
/** Of longer lines only the beginning is searched. */
const MAX_LINE_LENGTH = 100_000
const SHOWN_BEFORE = 100
const SHOWN_LENGTH = 300

/** Searches text files line by line, in the order of their paths, for as long as one call may take. */
export async function searchFiles(mount: AgencyMount, search: FileSearch): Promise<FoundLines> {
  const run = new SearchRun(search)
  for await (const { path } of mount.list(search.path)) {
    if (!run.mayGoOn()) break
    const file = await mount.open(path)
    if (file) await run.searchFile(file)
  }
  return run
}

class SearchRun implements FoundLines {
  readonly matches: { path: string; line: number; text: string }[] = []
  files = 0
  incomplete: string | null = null
  readonly #search: FileSearch
  readonly #find: (line: string) => number
  readonly #until = performance.now() + MAX_DURATION_MS
  #bytesLeft = MAX_BYTES

  constructor(search: FileSearch) {
    this.#search = search
    this.#find = finderOf(search)
  }

  /** Checked before each file as well as between lines, because empty and binary files have none. */
  mayGoOn(): boolean {
    this.#search.signal?.throwIfAborted()
    if (performance.now() > this.#until) this.incomplete ??= 'The search took too long. Name a longer path.'
    return this.incomplete === null
  }

  async searchFile(file: OpenedMountFile): Promise<void> {
    const content = await readText(file, MAX_LINE_LENGTH)
    if (content.kind === 'binary') return
    this.files++
    let number = 0
    for await (const lines of content.lines) {
      if (!this.mayGoOn()) return
      for (const text of lines) {
        number++
        this.#bytesLeft -= text.length + 1
        const at = this.#find(text)
        if (at >= 0) this.#add({ path: file.path, line: number, text: excerpt(text, at) })
        if (this.incomplete) return
      }
      if (this.#bytesLeft < 0) this.incomplete = 'Only the first 64 MiB were searched. Name a longer path.'
    }
  }

  #add(match: { path: string; line: number; text: string }): void {
    if (this.matches.length === this.#search.limit) this.incomplete = 'There are more matches.'
    else this.matches.push(match)
  }
}

/** Where in a line the query begins, or -1. Takes time in proportion to the line: no backtracking. */
function finderOf({ query, ignoreCase }: FileSearch): (line: string) => number {
  const parts = (ignoreCase ? query.toLowerCase() : query).split('*')
  return (line) => {
    const text = ignoreCase ? line.toLowerCase() : line
    let start = -1
    let from = 0
    for (const part of parts) {
      const at = text.indexOf(part, from)
      if (at < 0) return -1
      if (start < 0 && part !== '') start = at
      from = at + part.length
    }
    return Math.max(0, start)
  }
}

/** The surroundings of a match. */
function excerpt(line: string, at: number): string {
  const start = Math.max(0, at - SHOWN_BEFORE)
  const text = line.slice(start, start + SHOWN_LENGTH).toWellFormed()
  return `${start > 0 ? '…' : ''}${text}${start + SHOWN_LENGTH < line.length ? '…' : ''}`
}
