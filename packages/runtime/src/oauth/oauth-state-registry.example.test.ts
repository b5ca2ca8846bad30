import { readdir, stat, utimes } from 'node:fs/promises'
import path from 'node:path'
import { SignInFolder } from '../../../../examples/sign-in-folder.ts'
import { temporaryFolder } from '../../../../tests/support/temporary-folder.ts'
import { describeOAuthStateRegistry } from './oauth-state-registry.contract.ts'

describeOAuthStateRegistry('the example of the documents', async () => {
  const folder = await temporaryFolder()
  return {
    registry: new SignInFolder(folder),
    elsewhere: new SignInFolder(folder),
    advance: async (ms) => {
      for (const name of await readdir(folder)) {
        const file = path.join(folder, name)
        const before = (await stat(file)).mtimeMs - ms
        await utimes(file, before / 1_000, before / 1_000)
      }
    },
  }
})
