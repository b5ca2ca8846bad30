/**
 * Names and comments use the words that an English-speaking engineer looks for. This finds the ones that came back most.
 *
 * `node scripts/check-words.ts [root]` prints every place with its better word and exits with 1 when there is one.
 */
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

const SOURCES = ['packages/*/{src,bin}/**/*.{ts,tsx,mjs}', '{scripts,bench}/**/*.ts']
/** Titles of tests are sentences about people, too; and this file has to name what it looks for. */
const EXEMPT = /\.(test|contract|test-[a-z-]+)\.ts$|check-words\.ts$/

type Word = { readonly found: RegExp; readonly better: string }

/** As in the list of CONTRIBUTING.md. */
const WORDS: readonly Word[] = [
  { found: /\b(?:is|are|was|were) told\b/, better: 'gets, is answered, is shown' },
  { found: /\bis said\b/, better: 'is sent, is shown' },
  { found: /\b[Ss]tands? in (?:a|an|the|its|their|every|events)\b/, better: 'is in' },
  { found: /\b[Hh]ears?\b/, better: 'receives, is notified' },
  { found: /\b[Ll]ets? go\b|letGo/, better: 'release, forget, expire' },
  { found: /\btell[A-Z]\w*/, better: 'answer, notify, report' },
  {
    found: /(?<!here )\b(?:is|are) no (?:text|file|JSON|item|object|orphans?|answer|union|part of)\b/,
    better: 'is not a …',
  },
  { found: /\bOne that\b/, better: 'name the thing: "A call that …"' },
  { found: /\brun(?:s|ning)? out\b/, better: 'expire' },
]

type Problem = { readonly file: string; readonly line: number; readonly message: string }

/** Every such word under `root`, in the order of the files. */
export function checkWords(root: string): Problem[] {
  const files = globSync(SOURCES, { cwd: root, exclude: ['**/node_modules/**', '**/dist/**'] })
  return files
    .filter((file) => !EXEMPT.test(file))
    .toSorted()
    .flatMap((file) => {
      const lines = readFileSync(path.join(root, file), 'utf8').split('\n')
      return lines.flatMap((text, index) =>
        WORDS.flatMap(({ found, better }) => {
          const word = found.exec(text)?.[0]
          return word === undefined ? [] : [{ file, line: index + 1, message: `"${word}": ${better}` }]
        }),
      )
    })
}

if (import.meta.main) {
  const problems = checkWords(path.resolve(process.argv[2] ?? '.'))
  for (const { file, line, message } of problems) console.error(`${file}:${line} ${message}`)
  if (problems.length > 0) process.exitCode = 1
  else console.log('Words: none of the list.')
}
