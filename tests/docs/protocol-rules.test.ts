import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { ROOT } from './page.ts'

/** Pages of rules. */
const PAGES = ['ag-ui', 'open-responses', 'chat-completions', 'mcp', 'a2a']

/** Rows of three cells: the rule, the file of the test, and its title. */
function rowsOf(page: string): { readonly file: string; readonly title: string }[] {
  const lines = readFileSync(path.join(ROOT, page), 'utf8').split('\n')
  return lines.flatMap((line) => {
    const [, file, title] = /^\| .* \| `([^`]+\.test\.ts)` \| (.+) \|$/.exec(line) ?? []
    return file !== undefined && title !== undefined ? [{ file, title }] : []
  })
}

describe.each(PAGES)('the rules of %s', (page) => {
  const rows = rowsOf(`docs/protocol-rules/${page}.md`)

  test('has rows', () => {
    expect(rows.length).toBeGreaterThan(10)
  })

  test.each(rows)('$file has the test: $title', ({ file, title }) => {
    const source = readFileSync(path.join(ROOT, file), 'utf8')
    const calls = source.matchAll(/\(\s*(['"`])((?:(?!\1).)*)\1,/g)
    expect([...calls].map(([, , found]) => found)).toContain(title)
  })
})
