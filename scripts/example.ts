/**
 * Runs an example by its number or name: `npm run example -- 01`.
 *
 * What comes after it is for the example.
 */
import { globSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const FOLDER = path.resolve(import.meta.dirname, '../examples')

const [, , wanted = ''] = process.argv
const files = globSync('[0-9][0-9]-*.ts', { cwd: FOLDER }).toSorted()
const found = files.find((file) => wanted !== '' && (file.startsWith(`${wanted}-`) || file === `${wanted}.ts`))

if (found === undefined) {
  console.error(
    `Name one of these:\n${files.map((file) => `  npm run example -- ${file.slice(0, 2)}   ${file}`).join('\n')}`,
  )
  process.exitCode = 1
} else {
  await import(pathToFileURL(path.join(FOLDER, found)).href)
}
