import { readdir, readFile, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { Browser } from './support/browser.ts'
import { newTokenFolder, oauthFrames, startOAuthSetUp, toolOutputs, untilRedirect } from './support/oauth-set-up.ts'

test('what a sign-in leaves behind: sealed files of mode 0600 in folders of mode 0700', async () => {
  const setUp = await startOAuthSetUp()
  const stream = await setUp.run('ada')
  await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
  await stream.all()

  const entries = await readdir(setUp.tokenFolder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  expect(files.map(({ name }) => name).toSorted()).toEqual(['client.json', 'key', 'lock', 'tokens.json'])
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name)
    expect((await stat(path)).mode & 0o777).toBe(entry.isFile() ? 0o600 : 0o700)
    if (!entry.isFile()) continue
    const content = await readFile(path, 'utf8')
    for (const secret of setUp.idp.issuedTokens) expect(content).not.toContain(secret)
  }
})

test('whatever a user is called, the files stay in the folder and belong to that user alone', async () => {
  const setUp = await startOAuthSetUp()
  const users = ['../../../escaped', '/etc/passwd', '..', 'a/../b', 'con:', 'ada%2e%2e', 'x'.repeat(1_000)]
  for (const [index, user] of users.entries()) {
    const stream = await setUp.run(user)
    await new Browser().signIn((await untilRedirect(stream)).auth_url, `login-${index}`)
    await stream.all()
  }
  const folders = (await readdir(setUp.tokenFolder)).filter((name) => name !== 'key')
  expect(folders).toHaveLength(users.length)
  for (const folder of folders) expect(folder).toMatch(/^[A-Za-z0-9_-]{1,40}-[0-9a-f]{16}$/)
  for (const [index, user] of users.entries()) {
    const again = await (await setUp.run(user)).all()
    expect(oauthFrames(again)).toEqual([])
    expect(toolOutputs(again).at(-1)).toContain(`Notes of login-${index}`)
  }
  const beside = await readdir(resolve(setUp.tokenFolder, '..'))
  expect(beside.filter((name) => name.includes('escaped'))).toEqual([])
})

test("the declaration's own folder wins over the server's", async () => {
  const cacheDir = await newTokenFolder()
  const setUp = await startOAuthSetUp({ oauth: { cacheDir } })
  const stream = await setUp.run('ada')
  await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
  await stream.all()
  expect(await readdir(cacheDir)).toHaveLength(2)
  expect(await readdir(setUp.tokenFolder)).toEqual([])
})
