import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { checkWords } from './check-words.ts'

function found(file: string, text: string): string[] {
  const root = mkdtempSync(path.join(tmpdir(), 'bureau-words-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  mkdirSync(path.join(root, path.dirname(file)), { recursive: true })
  writeFileSync(path.join(root, file), text)
  return checkWords(root).map(({ line, message }) => `${line} ${message}`)
}

test.each([
  ['// The model is told so.', 'gets, is answered, is shown'],
  ['/** Stands in an event. */', 'is in'],
  ['/** The size stands in the header. */', 'is in'],
  ['/** Lets go of a log. */', 'release, forget, expire'],
  ['const letGo = () => {}', 'release, forget, expire'],
  ['// Undefined when it is no text.', 'is not a …'],
  ['// Undefined when there is no text.', undefined],
  ['/** One that waits. */', 'name the thing: "A call that …"'],
  ['// The lease expires.', undefined],
])('%s', (text, better) => {
  const problems = found('packages/runtime/src/a.ts', `\n${text}\n`)
  expect(problems).toEqual(better === undefined ? [] : [expect.stringMatching(/^2 "/)])
  if (better !== undefined) expect(problems[0]).toContain(better)
})

test('titles of tests are left alone', () => {
  expect(found('packages/runtime/src/a.test.ts', "test('the client is told so', () => {})")).toEqual([])
})
