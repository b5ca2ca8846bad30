// Run before the tests: Node.js 20 finds none in TypeScript files, and reports that none has failed.
import { readFileSync } from 'node:fs'

const { engines } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'))
const needed = engines.node.replace('>=', '')
if (process.versions.node.localeCompare(needed, 'en', { numeric: true }) < 0) {
  console.error(`The tests need Node.js ${needed} or newer; this is ${process.version}.`)
  console.error('Install it, or "npm install node@26" here.')
  process.exit(1)
}
