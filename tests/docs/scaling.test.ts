import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from './page.ts'

const scaling = (...args: readonly string[]): string =>
  execFileSync(process.execPath, ['scripts/scaling.ts', ...args], { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' })

test('docs/scaling.md shows what the command prints', () => {
  const page = readFileSync(path.join(ROOT, 'docs/scaling.md'), 'utf8')
  expect(page).toContain(`\`\`\`text\n${scaling()}\`\`\`\n`)
})

test('every figure of the calculation is explained on the page', () => {
  const source = readFileSync(path.join(ROOT, 'scripts/scaling.ts'), 'utf8')
  const page = readFileSync(path.join(ROOT, 'docs/scaling.md'), 'utf8')
  const explained = page.slice(page.indexOf('| Figure | From |'), page.indexOf('- **Redis**'))
  const constants = [
    ...source.matchAll(/^ {2}(processPer|databasePer|processIdle|databaseIdle|redisPer)\w*: ([\d.]+),/gm),
  ]
  expect(constants).toHaveLength(8)
  for (const [, , figure] of constants) expect(explained).toContain(figure)
})

test('runs that are not charged need less of PostgreSQL, and longer ones more', () => {
  const cores = (...args: readonly string[]): number => Number(/^1 .*?([\d.]+) cores/m.exec(scaling(...args))?.[1])
  expect(cores('--plain')).toBeLessThan(cores())
  expect(cores('--seconds', '60')).toBeGreaterThan(cores())
  expect(() => scaling('--seconds', 'long')).toThrow('numbers above 0')
})
