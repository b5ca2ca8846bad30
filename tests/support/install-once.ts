import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

const CACHE = path.join(import.meta.dirname, '../../node_modules/.cache')

/**
 * Packages that a test needs and that cannot be development dependencies: they are installed when it runs first.
 *
 * @param name - Of the folder; it has the version, so that another one is installed anew. @returns The folder.
 */
export async function installOnce(name: string, packages: readonly string[]): Promise<string> {
  const folder = path.join(CACHE, name)
  if (existsSync(folder)) return folder
  mkdirSync(CACHE, { recursive: true })
  const draft = mkdtempSync(path.join(CACHE, `${name}-`))
  writeFileSync(path.join(draft, 'package.json'), '{ "name": "page", "private": true }')
  const options = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']
  await run('npm', ['install', ...options, ...packages], { cwd: draft })
  renameSync(draft, folder)
  return folder
}
