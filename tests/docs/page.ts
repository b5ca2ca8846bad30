import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Everything that a reader may paste from. */
export const PAGES = [
  'README.md',
  'CONTRIBUTING.md',
  'examples/README.md',
  ...globSync('docs/**/*.md', { cwd: ROOT }),
].toSorted()

/**
 * A fenced block of a page. The words after the language say what becomes of it:
 *
 * - `file=NAME` is saved; TypeScript (`ts`, `tsx`) must be, and is type-checked. `import` and later commands find it.
 * - `sh` is run and must succeed; `sh server` is started and left running until the next one. `in=repository` says where;
 *   otherwise in the folder of the page's own files.
 * - `output`, after a command, is what it prints. A line `…` stands for any lines, `…` in a line for any text.
 * - `sh shown` cannot be run here (it installs, or asks a person); `shown-command.ts` knows what may stand in it.
 * - `sh ci` is what the continuous integration runs itself.
 * - Other languages are data (they must parse) or text.
 */
export type Block = {
  readonly page: string
  readonly line: number
  readonly language: string
  readonly words: readonly string[]
  readonly text: string
}

export function blocksOf(page: string, source = readFileSync(path.join(ROOT, page), 'utf8')): Block[] {
  return [...source.matchAll(/^```(\w*)[ ]*([^\n]*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    page,
    line: source.slice(0, match.index).split('\n').length,
    language: match[1]!,
    words: match[2]!.split(' ').filter((word) => word !== ''),
    text: match[3]!,
  }))
}

export function fileOf(block: Block): string | undefined {
  return block.words.find((word) => word.startsWith('file='))?.slice('file='.length)
}

export const isCommand = ({ language, words }: Block): boolean =>
  language === 'sh' && words[0] !== 'shown' && words[0] !== 'ci'
