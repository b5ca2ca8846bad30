import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { platformInstall } from './with-platform.ts'

test('the platform is installed by its name, and from its file in a project that has its packages as files', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  expect(platformInstall(folder)).toBe('npm install @bureau/platform')

  mkdirSync(path.join(folder, 'packages'))
  writeFileSync(path.join(folder, 'packages/bureau-platform-0.1.0.tgz'), '')
  expect(platformInstall(folder)).toBe('npm install ./packages/bureau-platform-0.1.0.tgz')
})
